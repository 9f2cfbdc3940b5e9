import type { SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import { type ExactJson, parseExact, restoreExact } from '../lib/exact-json.ts';
import type { JsonObject } from './codec.ts';

/** The body of a client's request, to be patched. */
export interface SentBody {
  /** A copy, which the caller may change. */
  readonly body: JsonObject;
  /**
   * Replaces the placeholders in the serialized body with what JavaScript values can't represent: long numbers, and the order of members.
   * Absent if the body has none.
   */
  readonly restore?: (json: string) => string;
}

/** Bodies that were already parsed, by their bytes. */
const readBodies = new WeakMap<Uint8Array, ExactJson>();

/**
 * Remembers the result of `parseExact` for a body that was parsed on another thread, because parsing a large body again would block the event
 * loop. `isMarked`: the value has placeholders.
 */
export function rememberBody(raw: Uint8Array, value: unknown, isMarked: boolean): void {
  readBodies.set(raw, { value, restore: isMarked ? restoreExact : undefined });
}

/** Returns the parsed body of a client's request. */
export function sentBody({ body }: SourceRequest): SentBody {
  const read = readBodies.get(body);
  const { value, restore } = read === undefined ? readBody(body) : { ...read, value: copy(read.value) };
  // The decoder has checked that the body is an object.
  return { body: value as JsonObject, ...(restore === undefined ? {} : { restore }) };
}

function readBody(body: Uint8Array): ExactJson {
  return parseExact(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8'));
}

/** Returns a copy of a JSON value that shares its texts. */
function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, copy(member)]));
}
