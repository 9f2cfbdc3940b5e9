import type { Json, UpstreamCodec } from '../codecs/codec.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { SseEventTooLarge, SseReader, type SseMessage } from '../lib/sse.ts';
import type { Stepper } from '../lib/stepper.ts';
import { type AnswerFormat, answerFormat } from './answer-format.ts';
import { asError } from './as-error.ts';

/** What an answer is read with. */
export interface AnswerReading {
  readonly codec: UpstreamCodec;
  /** The provider's name, as provenance of what only it can read. */
  readonly provider: string;
  /** The most bytes of one event, or of a whole answer. */
  readonly eventBytesMax: number;
  readonly contentType: string;
  /** How many choices were asked for. */
  readonly candidates: number;
}

/** What some bytes gave: events, and the failure that followed them. */
export interface ReadBatch {
  readonly events: GenerationEvent[];
  readonly failure?: Error;
}

/** The bytes of an answer to batches of events, streamed or whole. Pure: no I/O, no time. */
export class AnswerReader {
  readonly #reading: AnswerReading;
  readonly #sse: SseReader;
  readonly #parser: Stepper<SseMessage, GenerationEvent>;
  readonly #finished = new Set<number>();
  #format: AnswerFormat | undefined;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #completed = false;

  constructor(reading: AnswerReading) {
    this.#reading = reading;
    this.#sse = new SseReader(reading.eventBytesMax);
    this.#parser = reading.codec.parseStream(reading.provider);
  }

  /** `completed` has come: nothing more is wanted. */
  get completed(): boolean {
    return this.#completed;
  }

  /** Every asked choice has ended: what is missing is usage and the formal end. */
  get finished(): boolean {
    return this.#finished.size >= this.#reading.candidates;
  }

  /** The events that are ready because of `chunks`. A failure comes beside the events before it, because those were delivered. */
  push(chunks: readonly Uint8Array[]): ReadBatch {
    return this.#collect(events => {
      for (const chunk of chunks) this.#chunk(chunk, events);
    });
  }

  /** The bytes have ended: what was held back. Its failure is `truncated` where the end came too early. */
  end(): ReadBatch {
    return this.#collect(events => {
      if (this.#format === 'json') this.#take(this.#whole(), events);
      else this.#endStream(events);
      if (!this.#completed) throw new UpstreamFailure('truncated');
    });
  }

  /** Every choice has ended, and what follows can't be read: the answer without it. */
  finish(): ReadBatch {
    return this.#collect(events => this.#take(this.#parser.end(), events));
  }

  #collect(read: (events: GenerationEvent[]) => void): ReadBatch {
    const events: GenerationEvent[] = [];
    try {
      read(events);
      return { events };
    } catch (thrown) {
      if (thrown instanceof SseEventTooLarge)
        return { events, failure: new UpstreamFailure('malformed', { cause: thrown }) };
      return { events, failure: asError(thrown) };
    }
  }

  #chunk(chunk: Uint8Array, events: GenerationEvent[]): void {
    if (this.#format === 'events') {
      this.#messages(this.#sse.push(chunk), events);
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
    const start = Buffer.concat(this.#held);
    const format = answerFormat(start, this.#reading.contentType);
    if (format === 'undecided') return;
    if (format === 'foreign') {
      throw new UpstreamFailure('malformed', { cause: new Error('the answer is neither events nor JSON') });
    }
    this.#format = format;
    if (format === 'json') return;
    this.#held = [];
    this.#messages(this.#sse.push(start), events);
  }

  #endStream(events: GenerationEvent[]): void {
    if (this.#completed) return;
    try {
      this.#messages(this.#sse.end(), events);
      if (!this.#completed) this.#take(this.#parser.end(), events);
    } catch (thrown) {
      // What the end has cut in the middle of an event can't be read: the stream is truncated, not wrong.
      if (!(thrown instanceof UpstreamFailure) || thrown.kind !== 'malformed') throw thrown;
      throw new UpstreamFailure('truncated', { ...thrown.facts, cause: thrown });
    }
  }

  #whole(): GenerationEvent[] {
    const text = Buffer.concat(this.#held)
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
      if (this.#completed) return;
      this.#take(this.#parser.push(message), events);
    }
  }

  #take(added: readonly GenerationEvent[], events: GenerationEvent[]): void {
    for (const event of added) {
      if (event.event.case === 'finished') this.#finished.add(event.choice);
      else if (event.event.case === 'completed') this.#completed = true;
      events.push(event);
    }
  }
}
