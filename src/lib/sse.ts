import type { Stepper } from './stepper.ts';

/**
 * Server-sent events: a reader, which parses bytes as they arrive, and functions that write frames.
 * Source: WHATWG HTML, "Interpreting an event stream"; docs/interfaces/chat-completions.md "Stream"; docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Streams".
 */

/** An event of a stream. `event`: its name; '' if it has none. */
export interface SseMessage {
  readonly event: string;
  /** The data lines, joined by line feeds. */
  readonly data: string;
}

/** Thrown if an event of a stream is larger than the reader accepts. */
export class SseEventTooLarge extends Error {
  override readonly name = 'SseEventTooLarge';

  constructor(sizeMax: number) {
    super(`an event of the stream is larger than ${sizeMax}`);
  }
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const byteOrderMark = '\uFEFF';

/**
 * Parses bytes to events, however the bytes are split: inside characters, between CR and LF, inside a line. Lines end
 * with LF, CRLF or CR. A byte order mark, comments, `id` and `retry` are ignored; the field `error` is an event of that name. An event without a blank line after it is
 * returned by `end()`; its data may be incomplete. Throws `SseEventTooLarge` if an event is larger than `sizeMax`: the
 * bytes of the unfinished line plus the UTF-16 units of the finished data lines.
 */
export class SseReader implements Stepper<Uint8Array, SseMessage> {
  readonly #sizeMax: number;
  /** The bytes of the unfinished line. */
  #rest: Uint8Array[] = [];
  #restSize = 0;
  /** True if the last chunk ended with CR: an LF at the beginning of the next chunk belongs to the same line end. */
  #afterCarriageReturn = false;
  #atStart = true;
  #event = '';
  #data: string | undefined;

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  push(chunk: Uint8Array): SseMessage[] {
    const from = this.#afterCarriageReturn && chunk[0] === lineFeed ? 1 : 0;
    if (chunk.length === from) {
      if (from === 1) this.#afterCarriageReturn = false;
      return [];
    }
    this.#afterCarriageReturn = chunk[chunk.length - 1] === carriageReturn;
    const end = Math.max(chunk.lastIndexOf(lineFeed), chunk.lastIndexOf(carriageReturn)) + 1;
    if (end <= from) {
      this.#keep(from === 0 ? chunk : chunk.subarray(from));
      return [];
    }
    // The byte of a line end is never part of another character, so complete lines are complete UTF-8.
    const messages = this.#lines(this.#text(chunk, from, end));
    if (end < chunk.length) this.#keep(chunk.subarray(end));
    return messages;
  }

  end(): SseMessage[] {
    if (this.#restSize > 0) this.#line(this.#text(nothing, 0, 0));
    if (this.#data === undefined) return [];
    const message: SseMessage = { event: this.#event, data: this.#data };
    this.#data = undefined;
    this.#event = '';
    return [message];
  }

  #keep(bytes: Uint8Array): void {
    // This makes a copy (`slice` of a Buffer does not), because the socket may use its buffer again.
    this.#rest.push(new Uint8Array(bytes));
    this.#restSize += bytes.length;
    this.#check();
  }

  #check(): void {
    if (this.#restSize + (this.#data?.length ?? 0) > this.#sizeMax) throw new SseEventTooLarge(this.#sizeMax);
  }

  /** Returns the bytes of the unfinished line and those of `chunk` from `from` to `to` as text, without a byte order mark. */
  #text(chunk: Uint8Array, from: number, to: number): string {
    let text: string;
    if (this.#restSize > 0) {
      text = Buffer.concat([...this.#rest, chunk.subarray(from, to)]).toString('utf8');
      this.#rest = [];
      this.#restSize = 0;
    } else text = toBuffer(chunk).toString('utf8', from, to);
    if (!this.#atStart) return text;
    this.#atStart = false;
    return text.startsWith(byteOrderMark) ? text.slice(1) : text;
  }

  #lines(text: string): SseMessage[] {
    const lines = text.includes('\r') ? text.replaceAll(/\r\n?/g, '\n') : text;
    const messages: SseMessage[] = [];
    let from = 0;
    for (let to = lines.indexOf('\n'); to !== -1; to = lines.indexOf('\n', from)) {
      if (to > from) this.#line(lines.slice(from, to));
      else this.#dispatch(messages);
      from = to + 1;
    }
    return messages;
  }

  #dispatch(messages: SseMessage[]): void {
    if (this.#data !== undefined) messages.push({ event: this.#event, data: this.#data });
    this.#data = undefined;
    this.#event = '';
  }

  #line(line: string): void {
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    if (field !== 'data' && field !== 'event' && field !== 'error') return;
    const from = line.charCodeAt(colon + 1) === 0x20 ? colon + 2 : colon + 1;
    const value = colon === -1 ? '' : line.slice(from);
    if (field === 'event') this.#event = value;
    // llama.cpp reports a failure in a field of its own: `error: {"code":500,"message":"…"}`.
    else if (field === 'error') [this.#event, this.#data] = ['error', value];
    else this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    this.#check();
  }
}

const nothing = new Uint8Array();

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Returns the frame of an event without a name. `data` must not contain line ends; JSON text has none. */
export function sseData(data: string): string {
  return `data: ${data}\n\n`;
}

/** Returns the frame of a named event. `data` must not contain line ends. */
export function sseEvent(event: string, data: string): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}

/** Returns a comment, which keeps an idle stream open. It has only one line end, because some clients take a blank line for an empty event (docs/interfaces/README.md "Streams"). */
export function sseComment(text: string): string {
  return `: ${text}\n`;
}
