import type { Json, UpstreamCodec } from '../codecs/codec.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { parseExact } from '../lib/exact-json.ts';
import { SseEventTooLarge, SseReader, type SseMessage } from '../lib/sse.ts';
import type { Stepper } from '../lib/stepper.ts';
import { type AnswerFormat, answerFormat } from './answer-format.ts';
import { asError } from './as-error.ts';
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
  readonly sse: SseReader;
  readonly parser: Stepper<SseMessage, GenerationEvent>;
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
  readonly #finished: number[] = [];
  #contentType = '';
  #format: AnswerFormat | undefined;
  #stream: AnswerStream | undefined;
  #held: Uint8Array[] = [];
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
  push(chunk: Uint8Array): ReadBatch<GenerationEvent> {
    this.#idleBytes += chunk.length;
    const batch = this.#read(events => this.#chunk(chunk, events));
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
    return this.#read(events => {
      if (failure !== undefined) throw failure;
      this.#end(events);
    });
  }

  #read(read: (events: GenerationEvent[]) => void): ReadBatch<GenerationEvent> {
    let events: GenerationEvent[] = [];
    let failure: Error | undefined;
    try {
      read(events);
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
      this.#take(this.#stream.parser.end(), events);
      return undefined;
    } catch (thrown) {
      return asError(thrown);
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
    const [first] = this.#held;
    const start = this.#held.length === 1 && first !== undefined ? first : Buffer.concat(this.#held);
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

  #end(events: GenerationEvent[]): void {
    if (this.#format === 'json') this.#take(this.#whole(), events);
    else if (!this.#completed && this.#stream !== undefined) this.#endStream(this.#stream, events);
    if (!this.#completed) throw new UpstreamFailure('truncated');
  }

  #endStream({ sse, parser }: AnswerStream, events: GenerationEvent[]): void {
    try {
      this.#messages(sse.end(), events);
      if (!this.#completed) this.#take(parser.end(), events);
    } catch (thrown) {
      // An event that can't be read because the stream ended in its middle is truncated, not malformed.
      if (!(thrown instanceof UpstreamFailure) || thrown.kind !== 'malformed') throw thrown;
      throw new UpstreamFailure('truncated', { ...thrown.facts, cause: thrown });
    }
  }

  #whole(): GenerationEvent[] {
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
