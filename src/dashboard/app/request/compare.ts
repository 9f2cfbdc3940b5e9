import { readBinary } from './binary.ts';

/** How a line of a body compares with the other body: the other body lacks it (`only`), has another value (`changed`), or has the same. */
export type Mark = 'only' | 'changed' | 'same';

/** A line of a body, as it is shown. */
export interface BodyLine {
  readonly text: string;
  readonly mark: Mark;
}

const step = '  ';
const linesMax = 2_000;

/** Parses a body; undefined if it is not JSON, because it is a stream or was cut. */
export function readJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/**
 * Returns a body's lines, each with the result of comparing it with the other body. Members are compared by their path. If one of the bodies
 * is not JSON, nothing is marked.
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
  /** The member's name with its colon; '' in lists. */
  readonly name: string;
  readonly indent: string;
  /** The comma after the value, or ''. */
  readonly end: string;
  /** The members of the other body by their path; undefined if nothing is compared. */
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

/** Returns a value as JSON; binary data is described in words, because nobody can read base64. */
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

/** Returns every member of a body by its path, with its value as JSON; lists and objects with content have only their kind. */
function listMembers(value: unknown, path = '', found = new Map<string, string>()): ReadonlyMap<string, string> {
  const isWhole = typeof value !== 'object' || value === null || Object.keys(value).length === 0;
  found.set(path, isWhole ? JSON.stringify(value) : '');
  if (!isWhole) for (const [key, member] of Object.entries(value)) listMembers(member, `${path}/${key}`, found);
  return found;
}
