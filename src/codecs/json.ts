import { mayLose, parseExact } from '../lib/exact-json.ts';
import type { Json, JsonObject } from './codec.ts';

/** Reads JSON from other programs: a value of another kind than expected counts as absent. */

/** Returns an object; undefined if the value is not one. */
export function objectIn(value: Json | undefined): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
}

/** Returns a list; empty if the value is not one. */
export function listIn(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the objects of a list, in order; other entries are left out. */
export function objectsIn(value: Json | undefined): JsonObject[] {
  return listIn(value)
    .map(objectIn)
    .filter(each => each !== undefined);
}

/** Returns a string; '' if the value is not one. */
export function textIn(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Returns a count that fits into 32 bits; undefined if the value is not one. */
export function countIn(value: Json | undefined): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 32 ? value : undefined;
}

/** Parses a text, marking values that lose precision (`parseExact`); undefined if it is not a complete JSON value. */
export function exactJson(text: string): Json | undefined {
  try {
    return parseExact(text).value as Json;
  } catch {
    return undefined;
  }
}

/**
 * Parses a frame, marking values that lose precision. `isPlain` returns whether all members of a frame are known. The text of such a frame
 * is not searched, because no known member can lose precision.
 */
export function frameJson(text: string, isPlain: (frame: JsonObject) => boolean): Json | undefined {
  const value = parsedJson(text);
  const frame = objectIn(value);
  return frame === undefined || isPlain(frame) || !mayLose(text) ? value : exactJson(text);
}

/** Parses a text; undefined if it is not a complete JSON value. */
export function parsedJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Parses a field of the contract that contains the text of a JSON object; undefined if the field is ''. */
export function fieldJson(json: string): JsonObject | undefined {
  return json === '' ? undefined : (JSON.parse(json) as JsonObject);
}

/** Returns whether a text is a complete JSON value. */
export function isWholeJson(text: string): boolean {
  return parsedJson(text) !== undefined;
}

/** Returns the members of an object that are neither `known` nor null; undefined if there are none. */
export function unknownMembers(value: object, known: ReadonlySet<string>): Record<string, unknown> | undefined {
  let unknown: Record<string, unknown> | undefined;
  for (const name in value) {
    if (known.has(name)) continue;
    const member = (value as Record<string, unknown>)[name];
    if (member === null || member === undefined) continue;
    // Without a prototype, so that a member called __proto__ is a member.
    unknown ??= Object.create(null) as Record<string, unknown>;
    unknown[name] = member;
  }
  return unknown;
}

/** Returns the members that are not undefined, in their order. */
export function defined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const fields: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  // A plain loop, because this runs for every request and usage.
  for (const name in members) {
    const value = members[name];
    if (value !== undefined) fields[name] = value as Exclude<T[typeof name], undefined>;
  }
  return fields;
}

/** Returns about how many characters a value has as JSON, without writing it: an object of megabytes is measured as fast as it is walked. */
export function jsonLength(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return String(value).length;
  let length = 2;
  if (Array.isArray(value)) for (const entry of value) length += jsonLength(entry) + 1;
  else for (const [name, member] of Object.entries(value)) length += name.length + 4 + jsonLength(member);
  return length;
}
