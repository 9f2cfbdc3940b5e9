import { Secret } from './secrets.ts';
import { shownText } from './shown-settings.ts';

/** A setting that differs between two configurations. */
export interface SettingChange {
  /** Names of members, and ids or names of list entries; list entries without either have their index, from 0. */
  readonly path: readonly string[];
  /** The value as JSON, with secrets as `***`; undefined if the setting does not exist. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Compares two configurations, or parts of them. Order matters only in lists whose entries have neither id nor name. */
export function compareSettings(before: unknown, after: unknown): SettingChange[] {
  const changes: SettingChange[] = [];
  compare(before, after, { path: [], changes });
  return changes;
}

/** Formats a path: `models[acme/large].pricing.input`. */
export function settingPathText(path: readonly string[]): string {
  return path.reduce((text, step) => {
    if (!/^[A-Za-z_]\w*$/.test(step)) return `${text}[${step}]`;
    return text === '' ? step : `${text}.${step}`;
  }, '');
}

interface Place {
  readonly path: readonly string[];
  readonly changes: SettingChange[];
}

function compare(before: unknown, after: unknown, { path, changes }: Place): void {
  const [old, now] = [readMembers(before), readMembers(after)];
  if (old !== undefined && now !== undefined) {
    for (const name of new Set([...old.keys(), ...now.keys()])) {
      compare(old.get(name), now.get(name), { path: [...path, name], changes });
    }
  } else if (comparedText(before) !== comparedText(after)) {
    changes.push({ path, before: shownText(before), after: shownText(after) });
  }
}

/** Returns the members of an object, a map, or a list of objects; undefined for any other value. */
function readMembers(value: unknown): ReadonlyMap<string, unknown> | undefined {
  if (value instanceof Map) return new Map([...value].map(([name, member]) => [String(name), member]));
  if (typeof value !== 'object' || value === null || value instanceof Secret) return undefined;
  if (!Array.isArray(value)) return new Map(Object.entries(value));
  const entries = value.map((entry: unknown, index): [string, unknown] => [nameEntry(entry) ?? String(index), entry]);
  const names = new Map(entries);
  // A list is compared as a whole if it has plain values, or several entries with the same name.
  return value.some(entry => typeof entry !== 'object' || entry instanceof Secret) || names.size < value.length
    ? undefined
    : names;
}

function nameEntry(entry: unknown): string | undefined {
  if (typeof entry !== 'object' || entry === null) return undefined;
  const { id, name } = entry as { readonly id?: unknown; readonly name?: unknown };
  return typeof id === 'string' ? id : typeof name === 'string' ? name : undefined;
}

/** Returns a text for comparing a value. Unlike the shown text, it contains the secrets. */
function comparedText(value: unknown): string | undefined {
  return JSON.stringify(reveal(value), (_name, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each));
}

/** Returns a copy in which secrets are plain text, because `JSON.stringify` gets only `***` from a `Secret`. */
function reveal(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(reveal);
  const members: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(members.map(([name, member]) => [String(name), reveal(member)]));
}
