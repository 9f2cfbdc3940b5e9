/** A section of the settings: a member that is an object or a list, or all plain members together. */
export interface SettingsSection {
  readonly name: string;
  readonly text: string;
  /** The number of its members or entries. */
  readonly size: number;
}

/** Splits settings into sections, the plain members first. Throws if the text is not a JSON object. */
export function readSections(json: string): readonly SettingsSection[] {
  const settings = JSON.parse(json) as Record<string, unknown>;
  const entries = Object.entries(settings);
  const plain = entries.filter(([, value]) => !hasMembers(value));
  const sections = entries.flatMap(([name, value]) => {
    if (!hasMembers(value)) return [];
    return [{ name, text: yamlLines(value).join('\n'), size: Object.keys(value).length }];
  });
  return [{ name: 'general', text: yamlLines(Object.fromEntries(plain)).join('\n'), size: plain.length }, ...sections];
}

function hasMembers(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

/** Returns a value as lines of YAML. */
function yamlLines(value: object): string[] {
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([name, member]: [string, unknown]) => {
    const head = isList ? '-' : `${plainName(name)}:`;
    if (!hasMembers(member)) return [`${head} ${scalarText(member)}`];
    const lines = yamlLines(member).map(line => `  ${line}`);
    return isList ? [`- ${(lines[0] ?? '').trimStart()}`, ...lines.slice(1)] : [head, ...lines];
  });
}

function plainName(name: string): string {
  return /^[A-Za-z_][\w./-]*$/.test(name) ? name : JSON.stringify(name);
}

function scalarText(value: unknown): string {
  return typeof value === 'string' &&
    /^(?:[A-Za-z/][\w./*@ -]*|\d+[A-Za-z]+)$/.test(value) &&
    !/^(?:true|false|null|yes|no)$/i.test(value)
    ? value
    : JSON.stringify(value);
}
