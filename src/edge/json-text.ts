import { isUtf8 } from 'node:buffer';
import { findSyntaxProblem } from './json-syntax.ts';

/** A parsed text, or why it is no JSON, as a text for the client. */
export type ParsedText = { readonly value: unknown } | { readonly problem: string };

/** Parses the bytes of a JSON text. */
export function parseText(raw: Buffer): ParsedText {
  if (!isUtf8(raw)) return { problem: 'The body is not valid UTF-8.' };
  const text = raw.toString('utf8');
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    const { line, column, expected } = findSyntaxProblem(text);
    return { problem: `The body is not valid JSON: line ${line}, column ${column}: expected ${expected}.` };
  }
}
