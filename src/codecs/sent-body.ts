import type { SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import { type ExactJson, exactText, pairExact, parseExact, restoreExact } from '../lib/exact-json.ts';
import type { JsonObject, ReceivedRequest } from './codec.ts';

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

/** A number that JavaScript may have rounded, as it is written. */
const maybeRounded = /\d{16}/;

/** Writes objects of a client's body as JSON with all digits of their numbers. */
export class SentTexts {
  readonly #received: Pick<ReceivedRequest, 'body' | 'raw'>;
  /** The objects with marks, by those without; undefined until one is needed. */
  #exact: ReadonlyMap<object, unknown> | undefined;

  constructor(received: Pick<ReceivedRequest, 'body' | 'raw'>) {
    this.#received = received;
  }

  /** Returns the JSON of an object of the body. */
  write(value: object): string {
    const json = JSON.stringify(value);
    if (!maybeRounded.test(json)) return json;
    const { body, raw } = this.#received;
    this.#exact ??= pairExact(body, (readBodies.get(raw) ?? readBody(raw)).value);
    return exactText(this.#exact.get(value) ?? value);
  }
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
