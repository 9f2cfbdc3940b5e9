import type { Dispatcher } from 'undici';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import {
  type RunningAttempt,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../generation/upstream.ts';
import { type AnswerReading, AnswerReader } from './answer-reader.ts';
import { asError } from './as-error.ts';
import { GraceOver } from './deadlines.ts';
import { HttpExchange, type ResponseHead } from './http-exchange.ts';
import type { HttpTarget } from './http-target.ts';

/** Undoes in the answer what was changed in the request for a protocol. */
export interface EventRestorer {
  restored(events: GenerationEvent[]): GenerationEvent[];
}

/** A call as its provider is sent it. */
export interface EncodedCall {
  /** Path and query. */
  readonly path: string;
  /** By the index of the key that it is sent with. */
  readonly headers: readonly string[][];
  readonly body: Buffer;
  /** In the order in which they run. */
  readonly restorers: readonly EventRestorer[];
  /** What the client is told of fields that were dropped. */
  readonly warnings: readonly string[];
}

/** What all attempts at a provider share. */
export interface AttemptTools {
  readonly target: HttpTarget;
  readonly reading: AnswerReading;
}

/**
 * One attempt at an HTTP provider, from the key to the last event: each chunk of the socket runs through the reader and the restorers to the receiver in one call. Goes through
 * the keys while they are refused. No failure names a credential or an address.
 */
export class HttpAttempt extends HttpExchange implements RunningAttempt {
  readonly #tools: AttemptTools;
  readonly #call: UpstreamCall;
  readonly #receiver: UpstreamReceiver;
  readonly #connections: Dispatcher;
  /** Undefined once the answer has begun. */
  #encoded: EncodedCall | undefined;
  readonly #restorers: readonly EventRestorer[];
  readonly #warnings: readonly string[];
  #keyIndex = 0;
  #reader: AnswerReader | undefined;
  #state: 'waiting' | 'answering' | 'finishing' | 'over' = 'waiting';
  #isCancelled = false;

  /** Sends the call. */
  constructor(tools: AttemptTools, call: UpstreamCall, encoded: EncodedCall, receiver: UpstreamReceiver) {
    super(tools.target.timeouts, tools.target.runtime);
    this.#tools = tools;
    this.#call = call;
    this.#receiver = receiver;
    this.#encoded = encoded;
    this.#restorers = encoded.restorers;
    this.#warnings = encoded.warnings;
    this.#connections = tools.target.acquire();
    this.#send();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#leave();
  }

  protected override answered({ headers }: ResponseHead): void {
    const type = headers['content-type'];
    this.#encoded = undefined;
    this.#reader = new AnswerReader(
      this.#tools.reading,
      typeof type === 'string' ? type : '',
      this.#call.request.candidates ?? 1,
    );
    if (this.#call.whole) this.#answering();
  }

  protected override data(chunk: Buffer): void {
    const events: GenerationEvent[] = [];
    const failure = this.#reader?.push(chunk, events);
    if (this.#state === 'answering' || events.length > 0) this.#answering();
    this.#deliver(events, failure);
  }

  protected override ended(): void {
    const events: GenerationEvent[] = [];
    this.#deliver(events, this.#reader?.end(events));
  }

  protected override broke(failure: Error): void {
    const events: GenerationEvent[] = [];
    this.#deliver(events, failure instanceof GraceOver ? this.#reader?.end(events) : failure);
  }

  protected override refused(head: ResponseHead, body: Buffer): void {
    if (this.#state === 'over') return;
    const { target, reading } = this.#tools;
    const { hold, model } = this.#call;
    const failure = target.refusal({ head, body }, reading.codec);
    if (target.keys.learn(hold, model, { index: this.#keyIndex, failure })) this.#send();
    else this.#fail(failure);
  }

  #send(): void {
    const { keys, origin } = this.#tools.target;
    const { hold, model } = this.#call;
    const picked = keys.pick(hold, model);
    if (picked === undefined || this.#encoded === undefined) {
      this.#fail(keys.lastRefusal(hold) ?? new UpstreamFailure('status', { status: 401 }));
      return;
    }
    this.#keyIndex = picked.index;
    const { path, headers, body } = this.#encoded;
    this.send(this.#connections, { origin, path, headers: headers[picked.index] ?? [], body });
  }

  /** Bytes of an answer that has begun have come. */
  #answering(): void {
    if (this.#state === 'finishing' || this.#reader?.completed === true) return;
    this.#state = this.#reader?.finished === true ? 'finishing' : 'answering';
    this.deadlines.enter(this.#state);
  }

  #deliver(events: GenerationEvent[], failure: Error | undefined): void {
    const left = this.#forgiven(failure, events);
    try {
      let shown = events;
      for (const restorer of this.#restorers) shown = restorer.restored(shown);
      if (shown.length > 0) {
        if (this.#warnings.length > 0) addWarnings(shown, this.#warnings);
        this.#receiver.events(shown);
      }
    } catch (thrown) {
      this.#fail(asError(thrown));
      return;
    }
    // The receiver may have cancelled.
    if (this.#state === 'over') return;
    if (left !== undefined) this.#fail(left);
    else if (this.#reader?.completed === true) this.#complete();
  }

  /**
   * After the last choice has ended, usage at most is missing, which the gateway can estimate: a connection that breaks or babbles then takes nothing from the answer, and its end
   * is added. An error that the upstream reports still fails it.
   */
  #forgiven(failure: Error | undefined, events: GenerationEvent[]): Error | undefined {
    if (!(failure instanceof UpstreamFailure) || this.#reader?.finished !== true) return failure;
    if (failure.kind !== 'truncated' && failure.kind !== 'malformed') return failure;
    return this.#reader.end(events) === undefined ? undefined : this.#reader.finish(events);
  }

  #complete(): void {
    this.#state = 'over';
    this.drain();
    this.#tools.target.release();
    this.#receiver.end();
  }

  #fail(failure: Error): void {
    this.#leave();
    const { target } = this.#tools;
    const told = failure instanceof UpstreamFailure ? target.clean(failure) : failure;
    // Later: it may have failed before it could be returned, and the next attempt must not begin inside undici.
    queueMicrotask(() => {
      if (!this.#isCancelled) this.#receiver.end(told);
    });
  }

  #leave(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.close();
    this.#tools.target.release();
  }
}

function addWarnings(events: readonly GenerationEvent[], warnings: readonly string[]): void {
  for (const { event } of events) {
    if (event.case === 'started') event.value.warnings.push(...warnings);
  }
}
