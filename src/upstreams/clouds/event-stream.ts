import { crc32 } from 'node:zlib';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type SseMessage, SseEventTooLarge } from '../../lib/sse.ts';

/** The content type of AWS's binary streams. */
export const eventStreamType = 'application/vnd.amazon.eventstream';

/** Lengths and checksum before the headers; the checksum after the payload. */
const preludeBytes = 12;
const trailerBytes = 4;
/** The bytes of header values by their type; types 6 and 7 have a length before them. Source: smithy.io/2.0/aws/amazon-eventstream.html, 2026-11-28. */
const valueBytes: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 };
const textTypes: ReadonlySet<number> = new Set([6, 7]);

/** The types of errors of Messages that AWS's exceptions correspond to. Source: docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html, 2026-11-28. */
const errorTypes: Readonly<Record<string, string>> = {
  throttlingException: 'rate_limit_error',
  serviceUnavailableException: 'overloaded_error',
  internalServerException: 'api_error',
  modelTimeoutException: 'timeout_error',
  modelStreamErrorException: 'api_error',
  validationException: 'invalid_request_error',
};

/** A frame of the stream. */
interface Frame {
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Buffer;
}

/**
 * Reads the frames of an AWS event stream, however its bytes are split, as the events that they carry: JSON of the model's own protocol, base64 in `bytes`. An exception becomes an event `error` of Messages. Throws `UpstreamFailure` `truncated` for a wrong checksum and for a frame that ends early, and `SseEventTooLarge`.
 */
export class EventStreamReader {
  readonly #sizeMax: number;
  /** The bytes of the unfinished frame. They are joined when it is complete, because joining a large one for every chunk would take too long. */
  #parts: Uint8Array[] = [];
  #size = 0;
  /** The size at which more can be read. */
  #needed = preludeBytes;

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  /** Yields the events one by one, because those before a broken frame are valid. */
  *push(chunk: Uint8Array): Generator<SseMessage, void, undefined> {
    // This makes a copy, because the socket may use its buffer again.
    this.#parts.push(new Uint8Array(chunk));
    this.#size += chunk.length;
    while (this.#size >= this.#needed) {
      const bytes = Buffer.concat(this.#parts);
      const length = this.#readLength(bytes);
      this.#needed = length;
      this.#parts = [bytes];
      if (bytes.length < length) return;
      this.#parts = [bytes.subarray(length)];
      this.#size = bytes.length - length;
      this.#needed = preludeBytes;
      const message = toMessage(readFrame(bytes.subarray(0, length)));
      if (message !== undefined) yield message;
    }
  }

  end(): SseMessage[] {
    if (this.#size > 0) throw broken('the stream ended inside a frame');
    return [];
  }

  /** Returns the length of the frame that begins with these bytes. */
  #readLength(bytes: Buffer): number {
    if (crc32(bytes.subarray(0, 8)) !== bytes.readUInt32BE(8)) throw broken('a frame has a wrong prelude');
    const length = bytes.readUInt32BE(0);
    if (length > this.#sizeMax) throw new SseEventTooLarge(this.#sizeMax);
    if (preludeBytes + bytes.readUInt32BE(4) + trailerBytes > length) throw broken('a frame has a wrong length');
    return length;
  }
}

function readFrame(bytes: Buffer): Frame {
  const payloadAt = preludeBytes + bytes.readUInt32BE(4);
  const end = bytes.length - trailerBytes;
  if (crc32(bytes.subarray(0, end)) !== bytes.readUInt32BE(end)) throw broken('a frame has a wrong checksum');
  return { headers: readHeaders(bytes.subarray(preludeBytes, payloadAt)), payload: bytes.subarray(payloadAt, end) };
}

/** Returns the headers whose values are texts. */
function readHeaders(bytes: Buffer): Map<string, string> {
  const headers = new Map<string, string>();
  try {
    for (let at = 0; at < bytes.length;) {
      const nameEnd = at + 1 + bytes.readUInt8(at);
      const name = bytes.toString('utf8', at + 1, nameEnd);
      const type = bytes.readUInt8(nameEnd);
      const isText = textTypes.has(type);
      const from = nameEnd + (isText ? 3 : 1);
      const length = isText ? bytes.readUInt16BE(nameEnd + 1) : valueBytes[type];
      if (length === undefined || from + length > bytes.length) throw broken('a frame has a wrong header');
      if (isText) headers.set(name, bytes.toString('utf8', from, from + length));
      at = from + length;
    }
  } catch (thrown) {
    throw thrown instanceof RangeError ? broken('a frame has a wrong header') : thrown;
  }
  return headers;
}

function toMessage({ headers, payload }: Frame): SseMessage | undefined {
  const type = headers.get(':message-type') ?? 'event';
  if (type === 'event') {
    if (headers.get(':event-type') !== 'chunk') return undefined;
    const bytes = readMember(payload, 'bytes');
    return bytes === undefined ? undefined : { event: '', data: Buffer.from(bytes, 'base64').toString('utf8') };
  }
  const name = headers.get(':exception-type') ?? headers.get(':error-code') ?? '';
  const message = readMember(payload, 'message') ?? headers.get(':error-message') ?? name;
  const error = { type: errorTypes[name] ?? 'api_error', message };
  return { event: 'error', data: JSON.stringify({ type: 'error', error }) };
}

/** Returns a text of the payload's JSON; undefined if there is none. */
function readMember(payload: Buffer, name: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
  const member: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof member === 'string' ? member : undefined;
}

function broken(what: string): UpstreamFailure {
  return new UpstreamFailure('truncated', { cause: new Error(what) });
}
