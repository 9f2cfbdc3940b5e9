import { isUtf8 } from 'node:buffer';
import { BoundsScan, type JsonBounds } from './json-bounds.ts';
import { findSyntaxProblem } from './json-syntax.ts';

/** A parsed text, or the reason why it is not JSON, as a text for the client. */
export type ParsedText = { readonly value: unknown } | { readonly problem: string };

/** A parsed text, or the bound that it exceeds, as a text for the client. */
export type BoundedText = ParsedText | { readonly exceeded: string };

/** Returns the bound that a JSON text exceeds, as a text for the client; undefined: none, or `bounds` is absent. */
export function findExceeded(raw: Buffer, bounds: JsonBounds | undefined): string | undefined {
  return bounds === undefined ? undefined : new BoundsScan(bounds).push(raw);
}

/** Checks the bounds of a JSON text, unless they are absent, and parses it. */
export function parseWithin(raw: Buffer, bounds: JsonBounds | undefined): BoundedText {
  const exceeded = findExceeded(raw, bounds);
  return exceeded === undefined ? parseText(raw) : { exceeded };
}

/** Parses the bytes of a JSON text. */
export function parseText(raw: Buffer): ParsedText {
  return isUtf8(raw) ? parseJson(raw.toString('utf8')) : { problem: 'The body is not valid UTF-8.' };
}

/** Parses a JSON text. */
export function parseJson(text: string): ParsedText {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    const { line, column, expected } = findSyntaxProblem(text);
    return { problem: `The body is not valid JSON: line ${line}, column ${column}: expected ${expected}.` };
  }
}
