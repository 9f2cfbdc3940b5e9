import type { EventParser, Json, UpstreamCodec } from '../codecs/codec.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { parseExact } from '../lib/exact-json.ts';
import { withEntry } from '../lib/short-list.ts';
import { SseEventTooLarge, SseReader, type SseMessage } from '../lib/sse.ts';
import { type AnswerFormat, answerFormat } from './answer-format.ts';
import { asError } from './as-error.ts';
import { EventStreamReader, eventStreamType } from './clouds/event-stream.ts';
import type { BodyReader, ReadBatch } from './http-attempt.ts';

/** The options for reading the answers of a provider. */
export interface AnswerReading {
  readonly codec: UpstreamCodec;
  /** The provider's name; it is stored with blobs that only this provider can read. */
  readonly provider: string;
  /** The most bytes of one event, or of an answer that is not streamed. */
  readonly eventBytesMax: number;
}

interface AnswerStream {
  readonly sse: SseReader | EventStreamReader;
  readonly parser: EventParser;
}

/** Reverts in the answer a change that was made in the request for the upstream's protocol. */
export interface EventRestorer {
  restored(events: GenerationEvent[]): GenerationEvent[];
}

/** Converts the bytes of an answer, streamed or not, to events. */
export class AnswerReader implements BodyReader<GenerationEvent> {
  readonly #reading: AnswerReading;
  readonly #candidates: number;
  readonly #restorers: readonly EventRestorer[];
  /** The choices that have finished. */
  #finished: readonly number[] = [];
  #contentType = '';
  #format: AnswerFormat | undefined;
  #stream: AnswerStream | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** How many bytes have come since the last event. */
  #idleBytes = 0;
  #completed = false;

  /** `candidates`: how many choices were requested. `restorers` are applied in their order. */
  constructor(reading: AnswerReading, candidates: number, restorers: readonly EventRestorer[] = []) {
    this.#reading = reading;
    this.#candidates = candidates;
    this.#restorers = restorers;
  }

  get completed(): boolean {
    return this.#completed;
  }

  /** True if every requested choice has ended, so that only usage and the formal end are missing. */
  get finished(): boolean {
    return this.#finished.length >= this.#candidates;
  }

  begin(contentType: string): void {
    this.#contentType = contentType;
  }

  /** Returns the events that `chunk` completes. A failure is returned together with the events before it, because those were delivered. */
  push(chunk: Buffer): ReadBatch<GenerationEvent> {
    this.#idleBytes += chunk.length;
    const batch = this.#read(chunk);
    if (batch.events.length > 0) this.#idleBytes = 0;
    else if (this.#idleBytes > this.#reading.eventBytesMax && batch.failure === undefined) {
      return { events: [], failure: new UpstreamFailure('oversized') };
    }
    return batch;
  }

  /**
   * Called when the bytes have ended, or have broken off with `failure`. Returns the last events, and a failure if the answer is incomplete (`truncated` if it ended too early).
   */
  end(failure?: Error): ReadBatch<GenerationEvent> {
    return this.#read(undefined, failure);
  }

  /** `chunk`: undefined if the bytes have ended, or have broken off with `broken`. */
  #read(chunk: Buffer | undefined, broken?: Error): ReadBatch<GenerationEvent> {
    let events: GenerationEvent[] = [];
    let failure: Error | undefined;
    try {
      if (broken !== undefined) throw broken;
      if (chunk === undefined) this.#end(events);
      else this.#chunk(chunk, events);
    } catch (thrown) {
      const isTooLarge = thrown instanceof SseEventTooLarge;
      failure = isTooLarge ? new UpstreamFailure('malformed', { cause: thrown }) : asError(thrown);
      if (this.finished) failure = this.#forgive(failure, events);
    }
    for (const restorer of this.#restorers) events = restorer.restored(events);
    return failure === undefined ? { events } : { events, failure };
  }

  /**
   * Ignores a failure after the last choice has ended. Then only usage can be missing, which the gateway can estimate, so the end of the answer is added if the connection breaks or sends garbage. An error that the upstream reports is not ignored. Returns the remaining failure; undefined: none.
   */
  #forgive(failure: Error, events: GenerationEvent[]): Error | undefined {
    const isForgivable = failure instanceof UpstreamFailure && ['truncated', 'malformed'].includes(failure.kind);
    if (!isForgivable || this.#stream === undefined) return failure;
    try {
      this.#end(events);
      return undefined;
    } catch {
      // The last bytes can't be read either.
    }
    try {
      this.#parse(this.#stream.parser, undefined, events);
      return undefined;
    } catch (thrown) {
      return asError(thrown);
    }
  }

  #chunk(chunk: Buffer, events: GenerationEvent[]): void {
    if (this.#stream !== undefined) {
      this.#messages(this.#stream.sse.push(chunk), events);
      return;
    }
    this.#heldBytes += chunk.length;
    if (this.#heldBytes > this.#reading.eventBytesMax) {
      throw new UpstreamFailure('malformed', { cause: new Error('the answer is too large') });
    }
    if (this.#format === undefined) this.#decide(chunk, events);
    else this.#held.push(chunk);
  }

  /** Decides how an answer that begins with the held bytes and `chunk` is read. */
  #decide(chunk: Buffer, events: GenerationEvent[]): void {
    const start = this.#held.length === 0 ? chunk : Buffer.concat([...this.#held, chunk]);
    const isBinary = this.#contentType.startsWith(eventStreamType);
    const format = isBinary ? 'events' : answerFormat(start, this.#contentType);
    if (format === 'foreign') {
      throw new UpstreamFailure('malformed', { cause: new Error('the answer is neither events nor JSON') });
    }
    if (format !== 'undecided') this.#format = format;
    if (format !== 'events') {
      this.#held.push(chunk);
      return;
    }
    const { codec, provider, eventBytesMax } = this.#reading;
    const sse = isBinary ? new EventStreamReader(eventBytesMax) : new SseReader(eventBytesMax);
    this.#stream = { sse, parser: codec.parseStream(provider) };
    this.#held = [];
    this.#messages(this.#stream.sse.push(start), events);
  }

  #end(events: GenerationEvent[]): void {
    if (this.#format === 'json') this.#takeWhole(events);
    else if (!this.#completed && this.#stream !== undefined) this.#endStream(this.#stream, events);
    if (!this.#completed) throw new UpstreamFailure('truncated');
  }

  #endStream({ sse, parser }: AnswerStream, events: GenerationEvent[]): void {
    try {
      this.#messages(sse.end(), events);
      if (!this.#completed) this.#parse(parser, undefined, events);
    } catch (thrown) {
      // An event that can't be read because the stream ended in its middle is truncated, not malformed.
      if (!(thrown instanceof UpstreamFailure) || thrown.kind !== 'malformed') throw thrown;
      throw new UpstreamFailure('truncated', { ...thrown.facts, cause: thrown });
    }
  }

  #takeWhole(events: GenerationEvent[]): void {
    const text = Buffer.concat(this.#held)
      .toString('utf8')
      .replace(/^\uFEFF/, '');
    this.#held = [];
    let body: Json;
    try {
      // The type is not checked here: the codec checks what it reads.
      body = parseExact(text).value as Json;
    } catch (cause) {
      throw new UpstreamFailure(/[}\]]\s*$/.test(text) ? 'malformed' : 'truncated', { cause });
    }
    for (const event of this.#reading.codec.parseWhole(body, this.#reading.provider)) events.push(event);
    this.#note(events, 0);
  }

  #messages(messages: Iterable<SseMessage>, events: GenerationEvent[]): void {
    for (const message of messages) {
      if (this.#completed || this.#stream === undefined) return;
      this.#parse(this.#stream.parser, message, events);
    }
  }

  /** Adds the events of a message, or, if it is undefined, those of the end of the stream. */
  #parse(parser: EventParser, message: SseMessage | undefined, events: GenerationEvent[]): void {
    const before = events.length;
    try {
      if (message === undefined) parser.end(events);
      else parser.push(message, events);
    } catch (thrown) {
      events.length = before;
      throw thrown;
    }
    this.#note(events, before);
  }

  /** Notes what the events from `start` on end. */
  #note(events: readonly GenerationEvent[], start: number): void {
    for (let at = start; at < events.length; at += 1) {
      const event = events[at];
      if (event?.event.case === 'completed') this.#completed = true;
      else if (event?.event.case === 'finished' && !this.#finished.includes(event.choice)) {
        this.#finished = withEntry(this.#finished, event.choice);
      }
    }
  }
}
