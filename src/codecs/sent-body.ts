import type { SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import { parseExact } from '../lib/exact-json.ts';
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

/** Reads the body of a client's own request. */
export function sentBody({ body }: SourceRequest): SentBody {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
  const { value, restore } = parseExact(text);
  // The decoder has checked that it is an object.
  return { body: value as JsonObject, ...(restore === undefined ? {} : { restore }) };
}
