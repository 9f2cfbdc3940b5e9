import type { Json, UpstreamCodec } from '../codecs/codec.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { SseEventTooLarge, SseReader, type SseMessage } from '../lib/sse.ts';
import type { Stepper } from '../lib/stepper.ts';
import { type AnswerFormat, answerFormat } from './answer-format.ts';
import { asError } from './as-error.ts';

/** What all answers of a provider are read with. */
export interface AnswerReading {
  readonly codec: UpstreamCodec;
  /** The provider's name, as provenance of what only it can read. */
  readonly provider: string;
  /** The most bytes of one event, or of a whole answer. */
  readonly eventBytesMax: number;
}

/** Reads the bytes of an answer, streamed or whole, into events. Pure: no I/O, no time. */
export class AnswerReader {
  readonly #reading: AnswerReading;
  readonly #contentType: string;
  readonly #candidates: number;
  /** Choices that have ended. */
  readonly #finished: number[] = [];
  #format: AnswerFormat | undefined;
  #stream: { readonly sse: SseReader; readonly parser: Stepper<SseMessage, GenerationEvent> } | undefined;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #completed = false;

  /** `candidates`: how many choices were asked for. */
  constructor(reading: AnswerReading, contentType: string, candidates: number) {
    this.#reading = reading;
    this.#contentType = contentType;
    this.#candidates = candidates;
  }

  /** `completed` has come: nothing more is wanted. */
  get completed(): boolean {
    return this.#completed;
  }

  /** Every asked choice has ended: what is missing is usage and the formal end. */
  get finished(): boolean {
    return this.#finished.length >= this.#candidates;
  }

  /** Adds the events that are ready because of `chunk`. Returns the failure that followed them; the events before it count. */
  push(chunk: Uint8Array, events: GenerationEvent[]): Error | undefined {
    try {
      this.#chunk(chunk, events);
      return undefined;
    } catch (thrown) {
      return readFailure(thrown);
    }
  }

  /** The bytes have ended: adds what was held back. Returns a failure as `push`, `truncated` if the end came too early. */
  end(events: GenerationEvent[]): Error | undefined {
    try {
      if (this.#format === 'json') this.#take(this.#whole(), events);
      else this.#endStream(events);
      return this.#completed ? undefined : new UpstreamFailure('truncated');
    } catch (thrown) {
      return readFailure(thrown);
    }
  }

  /** Every choice has ended, and what follows can't be read: adds the end without it. Returns a failure as `push`. */
  finish(events: GenerationEvent[]): Error | undefined {
    try {
      this.#take(this.#stream?.parser.end() ?? [], events);
      return undefined;
    } catch (thrown) {
      return readFailure(thrown);
    }
  }

  #chunk(chunk: Uint8Array, events: GenerationEvent[]): void {
    if (this.#stream !== undefined) {
      this.#messages(this.#stream.sse.push(chunk), events);
      return;
    }
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes > this.#reading.eventBytesMax) {
      throw new UpstreamFailure('malformed', { cause: new Error('the answer is too large') });
    }
    if (this.#format === undefined) this.#decide(events);
  }

  #decide(events: GenerationEvent[]): void {
    const start = this.#heldWhole();
    const format = answerFormat(start, this.#contentType);
    if (format === 'undecided') return;
    if (format === 'foreign') {
      throw new UpstreamFailure('malformed', { cause: new Error('the answer is neither events nor JSON') });
    }
    this.#format = format;
    if (format === 'json') return;
    const { codec, provider, eventBytesMax } = this.#reading;
    this.#stream = { sse: new SseReader(eventBytesMax), parser: codec.parseStream(provider) };
    this.#held = [];
    this.#messages(this.#stream.sse.push(start), events);
  }

  #heldWhole(): Uint8Array {
    const [first, ...rest] = this.#held;
    return first !== undefined && rest.length === 0 ? first : Buffer.concat(this.#held);
  }

  #endStream(events: GenerationEvent[]): void {
    if (this.#completed || this.#stream === undefined) return;
    const { sse, parser } = this.#stream;
    try {
      this.#messages(sse.end(), events);
      if (!this.#completed) this.#take(parser.end(), events);
    } catch (thrown) {
      // What the end has cut in the middle of an event can't be read: the stream is truncated, not wrong.
      if (!(thrown instanceof UpstreamFailure) || thrown.kind !== 'malformed') throw thrown;
      throw new UpstreamFailure('truncated', { ...thrown.facts, cause: thrown });
    }
  }

  #whole(): GenerationEvent[] {
    const { buffer, byteOffset, byteLength } = this.#heldWhole();
    this.#held = [];
    const text = Buffer.from(buffer, byteOffset, byteLength)
      .toString('utf8')
      .replace(/^\uFEFF/, '');
    let body: Json;
    try {
      // Foreign data: the codec checks what it reads.
      body = JSON.parse(text) as Json;
    } catch (cause) {
      throw new UpstreamFailure(/[}\]]\s*$/.test(text) ? 'malformed' : 'truncated', { cause });
    }
    return this.#reading.codec.parseWhole(body, this.#reading.provider);
  }

  #messages(messages: readonly SseMessage[], events: GenerationEvent[]): void {
    for (const message of messages) {
      if (this.#completed || this.#stream === undefined) return;
      this.#take(this.#stream.parser.push(message), events);
    }
  }

  #take(added: readonly GenerationEvent[], events: GenerationEvent[]): void {
    for (const event of added) {
      if (event.event.case === 'completed') this.#completed = true;
      else if (event.event.case === 'finished' && !this.#finished.includes(event.choice)) {
        this.#finished.push(event.choice);
      }
      events.push(event);
    }
  }
}

function readFailure(thrown: unknown): Error {
  return thrown instanceof SseEventTooLarge ? new UpstreamFailure('malformed', { cause: thrown }) : asError(thrown);
}
