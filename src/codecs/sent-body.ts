import type { SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import { type ExactJson, parseExact, restoreExact } from '../lib/exact-json.ts';
import type { JsonObject } from './codec.ts';

/** The body of a client's own request. */
export interface SentBody {
  /** The caller's to change. */
  readonly body: JsonObject;
  /**
   * Replaces the marks in the serialized body with their content: digits and orders that JavaScript values lose. Absent: nothing is marked.
   */
  readonly restore?: (json: string) => string;
}

/** Bodies that were read elsewhere, by their bytes. */
const readBodies = new WeakMap<Uint8Array, ExactJson>();

/**
 * Remembers what `parseExact` gives for a body that was read on another thread: reading a large one again would hold the event loop. `isMarked`:
 * the value has marks.
 */
export function rememberBody(raw: Uint8Array, value: unknown, isMarked: boolean): void {
  readBodies.set(raw, { value, restore: isMarked ? restoreExact : undefined });
}

/** Reads the body of a client's own request. */
export function sentBody({ body }: SourceRequest): SentBody {
  const read = readBodies.get(body);
  const { value, restore } = read === undefined ? readBody(body) : { ...read, value: copy(read.value) };
  // The decoder has checked that it is an object.
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
