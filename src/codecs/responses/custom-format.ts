import type { JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';

/** Converts the format of a free-form tool. The contract nests a grammar, as Chat does; in Responses it is flat. */

/** Converts a format from Responses to JSON text. */
export function decodeFormat(format: JsonObject): string {
  const { type, syntax, definition, ...rest } = format;
  if (type !== 'grammar' || syntax === undefined || definition === undefined) return JSON.stringify(format);
  return JSON.stringify({ type, grammar: { syntax, definition }, ...rest });
}

/** Converts a format to Responses; undefined if there is none. */
export function encodeFormat(json: string): JsonObject | undefined {
  if (json === '') return undefined;
  const format = JSON.parse(json) as JsonObject;
  const grammar = objectIn(format['grammar']);
  if (grammar === undefined) return format;
  const { grammar: _, ...rest } = format;
  return { ...rest, ...grammar };
}
