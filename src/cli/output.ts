import { displayWidth } from '../lib/display-width.ts';

/** Formats the output of commands: tables for people, or one JSON document for programs. */

/** A JSON document: an object of plain values. */
export type Document = Readonly<Record<string, unknown>>;

/** Writes to the standard output and the standard error. */
export interface Streams {
  out(text: string): void;
  err(text: string): void;
}

/** Returns the document as indented JSON. */
export function jsonText(document: Document): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** Formats an object as lines of `name  value`. */
export function resourceText(resource: Document): string {
  const width = Math.max(...Object.keys(resource).map(name => name.length));
  return Object.entries(resource)
    .map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}\n`)
    .join('');
}

/** Formats rows as a table with the named columns, numbers and money right-aligned, or `none` if there are no rows. */
export function tableText(rows: readonly Document[], columns: readonly string[]): string {
  if (rows.length === 0) return 'none\n';
  const aligned = columns.map(name => {
    const isNumeric = rows.every(row => isNumber(row[name]));
    const cells = [name.toUpperCase(), ...rows.map(row => cellText(row[name]))];
    const width = Math.max(...cells.map(displayWidth));
    return cells.map(cell => {
      const padding = ' '.repeat(width - displayWidth(cell));
      return isNumeric ? padding + cell : cell + padding;
    });
  });
  const lines = ['', ...rows].map((_row, index) => aligned.map(cells => cells[index] ?? '').join('  '));
  return lines.map(line => `${line.trimEnd()}\n`).join('');
}

/** Returns whether a column with this value may be right-aligned: the value is a number, an amount of money (raw JSON) or absent. */
function isNumber(value: unknown): boolean {
  return value === null || value === undefined || typeof value === 'number' || isRawJson(value);
}

function isRawJson(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'rawJSON' in value;
}

/** Formats rows as comma-separated values with a header (RFC 4180). Absent values are empty. */
export function csvText(rows: readonly Document[], columns: readonly string[]): string {
  const lines = [columns, ...rows.map(row => columns.map(name => csvCell(row[name])))];
  return lines.map(line => `${line.join(',')}\r\n`).join('');
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function cellText(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(cellText).join(', ');
  if (typeof value === 'object') return visible(JSON.stringify(value));
  return visible(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Makes a text from a client safe for a terminal: characters that could move the cursor or change colours become boxes. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '\u{25A1}');
}
