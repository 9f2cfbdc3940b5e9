import { readBinary } from './binary.ts';

/** How a line of one body compares to another body: missing there, different there, or the same. */
export type Mark = 'only' | 'changed' | 'same';

/** A line of a body as it is shown. */
export interface BodyLine {
  readonly text: string;
  readonly mark: Mark;
}

const step = '  ';
const linesMax = 2_000;

/** Parses a body; undefined if it is not JSON: a stream, or cut. */
export function readJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/**
 * Returns a body's lines, each marked by its comparison with the other body: members are compared by their path. Both must be JSON, else
 * nothing is marked.
 */
export function compareBodies(text: string, other: string): readonly BodyLine[] {
  const [own, others] = [readJson(text), readJson(other)];
  if (own === undefined)
    return text
      .split('\n')
      .slice(0, linesMax)
      .map(line => ({ text: line, mark: 'same' as const }));
  const known = others === undefined ? undefined : listMembers(others.value);
  const lines: BodyLine[] = [];
  addLines(lines, own.value, { path: '', name: '', indent: '', end: '', known });
  return lines.slice(0, linesMax);
}

interface Place {
  readonly path: string;
  /** With its colon, or ''. */
  readonly name: string;
  readonly indent: string;
  /** A comma, or ''. */
  readonly end: string;
  /** Members of the other body by their path; undefined: it is not compared. */
  readonly known: ReadonlyMap<string, string> | undefined;
}

function addLines(lines: BodyLine[], value: unknown, place: Place): void {
  const { path, name, indent, end, known } = place;
  const isList = Array.isArray(value);
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) {
    lines.push({ text: `${indent}${name}${valueText(value)}${end}`, mark: chooseMark(path, value, known) });
    return;
  }
  const mark = known === undefined || path === '' || known.has(path) ? 'same' : 'only';
  lines.push({ text: `${indent}${name}${isList ? '[' : '{'}`, mark });
  const members = Object.entries(value);
  for (const [index, [key, member]] of members.entries()) {
    addLines(lines, member, {
      path: `${path}/${key}`,
      name: isList ? '' : `${JSON.stringify(key)}: `,
      indent: indent + step,
      end: index === members.length - 1 ? '' : ',',
      known,
    });
  }
  lines.push({ text: `${indent}${isList ? ']' : '}'}${end}`, mark });
}

/** Returns a value as JSON; binary data in words, because no one reads base64. */
function valueText(value: unknown): string {
  const binary = typeof value === 'string' ? readBinary(value) : undefined;
  if (binary === undefined) return JSON.stringify(value);
  return `[${binary.type === '' ? 'binary data' : binary.type}, ${binary.bytes.toLocaleString('en')} bytes]`;
}

function chooseMark(path: string, value: unknown, known: ReadonlyMap<string, string> | undefined): Mark {
  if (known === undefined) return 'same';
  const other = known.get(path);
  if (other === undefined) return 'only';
  return other === JSON.stringify(value) ? 'same' : 'changed';
}

/** Returns every member of a body by its path, with its value as JSON; for lists and objects only their kind. */
function listMembers(value: unknown, path = '', found = new Map<string, string>()): ReadonlyMap<string, string> {
  const isWhole = typeof value !== 'object' || value === null || Object.keys(value).length === 0;
  found.set(path, isWhole ? JSON.stringify(value) : '');
  if (!isWhole) for (const [key, member] of Object.entries(value)) listMembers(member, `${path}/${key}`, found);
  return found;
}
