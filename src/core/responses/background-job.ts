import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import { type CreateResponseResponse, ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { DocumentChange } from '../../store/documents.ts';
import type { Generation } from '../generation/generation.ts';
import type { GenerationSink } from '../generation/generation-sink.ts';
import type { Generations } from '../generation/generations.ts';
import type { AnswerStore } from '../idempotency/replays.ts';
import {
  addToConversation,
  type RequestedResponse,
  createMessage,
  ownInput,
  responseHead,
  withCallerPaths,
} from './requested-response.ts';
import { CallSignatures } from './call-signatures.ts';
import { storeResponse, type WriterDependencies } from './response-writer.ts';
import {
  type Answer,
  type BodyFacts,
  encodeBody,
  encodeChunk,
  type EndFacts,
  failedWith,
  toAnswer,
} from './stored-response.ts';

/** The dependencies of `BackgroundJob`. */
export interface BackgroundDependencies extends WriterDependencies {
  readonly runtime: Pick<Runtime, 'after'>;
  readonly generations: Generations;
  /** The running jobs by the response's id. Readers of responses use the same map. */
  readonly jobs: Map<string, BackgroundJob>;
  /** The ids of responses that are being stored before their job exists. */
  readonly beginning: Set<string>;
  /** Called for failures that are the gateway's own fault, for the log. */
  readonly onDefect: (responseId: string, error: unknown) => void;
}

/** The waits between attempts to store the end of a job; the last one is repeated. */
const waitsMs = [100, 300, 1_000, 3_000];

/** The change that ends a response. */
type Ending = Pick<DocumentChange, 'state' | 'finished' | 'body' | 'handsOver'>;

/**
 * A background response, from its admission until its end is stored. It does not depend on any connection. Events are stored before anyone sees them, so that a client that follows the response never sees events that a restart would lose.
 */
export class BackgroundJob implements GenerationSink {
  readonly #dependencies: BackgroundDependencies;
  readonly #generation: Generation;
  readonly #facts: BodyFacts;
  readonly #requested: RequestedResponse;
  /** The events that are stored. */
  readonly #log = new EventLog();
  readonly #signatures = new CallSignatures();
  readonly #watchers: (() => void)[] = [];
  readonly #ended = Promise.withResolvers<void>();
  /** The events that are not stored yet. */
  #waiting: GenerationEvent[] = [];
  /** Resolves when all waiting events are stored, or storing has failed; undefined: nothing is being stored. */
  #writing: Promise<void> | undefined;
  /** The error with which storing events failed. */
  #failure: GatewayError | undefined;
  /** How many events are in the stored log. */
  #written = 0;
  /** True if the complete answer is stored. */
  #isStored = false;
  #isCancelled = false;

  /** `generation` is admitted; it must be started with this job as its sink. */
  constructor(
    dependencies: BackgroundDependencies,
    generation: Generation,
    requested: RequestedResponse,
    facts: BodyFacts,
  ) {
    this.#dependencies = dependencies;
    this.#generation = generation;
    this.#facts = facts;
    this.#requested = requested;
  }

  /** The status of the response: queued until the model begins to answer, then in progress. */
  get status(): ResponseStatus {
    return this.#written === 0 ? ResponseStatus.QUEUED : ResponseStatus.IN_PROGRESS;
  }

  get answer(): Answer {
    return toAnswer(this.#facts.head.id, this.#log.read(), false);
  }

  /** Resolves when the end of the response is stored. Never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Resolves when more events are stored, or the job has ended. */
  changed(): Promise<void> {
    return new Promise(resolve => {
      this.#watchers.push(resolve);
    });
  }

  /** Cancels the response. What was delivered is charged. */
  cancel(): void {
    this.#isCancelled = true;
    this.#generation.cancel();
  }

  events(batch: GenerationEvent[]): void {
    if (this.#isStored) return;
    for (const event of this.#signatures.push(batch)) this.#waiting.push(event);
    if (this.#writing !== undefined) return;
    this.#generation.pause();
    this.#writing = this.#write();
  }

  async beforeSettle(last: readonly GenerationEvent[]): Promise<void> {
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    const rest = this.#signatures.push(last);
    const shown = rest.filter(({ event }) => event.case !== 'completed');
    const chunks = shown.length === 0 ? [] : [{ seq: this.#written, content: encodeChunk(shown) }];
    const { output } = toAnswer(this.#facts.head.id, [...this.#log.read(), ...rest]);
    await addToConversation(this.#requested, output, this.#requested.requestId);
    await this.#update({ ...(await this.#ending({ state: 'ended' }, rest)), chunks });
    this.#isStored = true;
  }

  end(error?: Error): void {
    void this.#storeEnd(error).finally(() => {
      this.#dependencies.jobs.delete(this.#facts.head.id);
      this.#requested.lock?.release();
      this.#requested.room.release();
      this.#ended.resolve();
      this.#tellWatchers();
    });
  }

  /** Stores the waiting events, and those that arrive meanwhile. Never rejects; after a failure no more events are stored. */
  async #write(): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#append(this.#waiting.slice());
    } catch (thrown) {
      this.#failure = toGatewayError(thrown);
      this.#reportDefect(thrown);
      // A failure of the gateway is not charged, so the generation is interrupted.
      this.#generation.interrupt();
      return;
    }
    this.#writing = undefined;
    this.#generation.resume();
  }

  async #append(events: readonly GenerationEvent[]): Promise<void> {
    await this.#update({ chunks: [{ seq: this.#written, content: encodeChunk(events) }] });
    this.#waiting.splice(0, events.length);
    for (const event of events) this.#log.add(event);
    this.#written += events.length;
    this.#tellWatchers();
  }

  /**
   * Stores how the response ended, unless the complete answer is already stored. Retries until storage works, except if the response was deleted; clients that follow the response wait until then. Never rejects.
   */
  async #storeEnd(error: unknown): Promise<void> {
    if (this.#isStored) return;
    await this.#writing;
    // The generation decides about the charge and the error; here only the result is stored.
    const facts = this.#isCancelled
      ? { state: 'cancelled' as const }
      : this.#generation.isInterrupted
        ? { state: 'restarted' as const }
        : failedWith(error);
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.#update(await this.#endingOrState(facts));
        return;
      } catch (thrown) {
        this.#reportDefect(thrown);
        if (toGatewayError(thrown).code !== 'overloaded') return;
        await new Promise<void>(resolve => {
          this.#dependencies.runtime.after(waitsMs[Math.min(attempt, waitsMs.length - 1)] ?? 0, resolve);
        });
      }
    }
  }

  /** Returns the change that ends a response whose whole answer is not stored: only its state, if its output can't be encoded. */
  async #endingOrState(facts: EndFacts): Promise<Ending> {
    try {
      return await this.#ending(facts, this.#waiting);
    } catch (thrown) {
      this.#reportDefect(thrown);
      return { state: facts.state, finished: true };
    }
  }

  /** Returns the change that ends the response: its state, and a body with the stored events and `rest`. */
  async #ending({ state, failure }: EndFacts, rest: readonly GenerationEvent[]): Promise<Ending> {
    const answer = toAnswer(this.#facts.head.id, [...this.#log.read(), ...rest]);
    return { state, finished: true, body: await encodeBody({ ...this.#facts, answer, failure }), handsOver: true };
  }

  /** Changes the document. Throws `not_found` if the response was deleted. */
  async #update(change: Omit<DocumentChange, 'kind' | 'id' | 'ifState'>): Promise<void> {
    const { id } = this.#facts.head;
    const outcome = await this.#dependencies.documents.update({ kind: 'response', id, ifState: 'running', ...change });
    if (outcome !== 'updated') throw new GatewayError('not_found', `The response ${id} was deleted.`);
  }

  /** Reports a failure, unless storage failed (which its own health check reports) or the response was deleted. */
  #reportDefect(thrown: unknown): void {
    if (toGatewayError(thrown).code === 'internal') this.#dependencies.onDefect(this.#facts.head.id, thrown);
  }

  #tellWatchers(): void {
    for (const resolve of this.#watchers.splice(0)) resolve();
  }
}

/** Begins a background response, which does not depend on its client. Returns the first message of the response. */
export async function beginInBackground(
  dependencies: BackgroundDependencies,
  requested: RequestedResponse,
  answerStore: AnswerStore<CreateResponseResponse> | undefined,
): Promise<CreateResponseResponse> {
  const { documents, generations, jobs, beginning } = dependencies;
  const { credential, requestId, telemetry } = requested;
  const request = { ...requested.request, delivery: Delivery.STREAMED };
  const terms = { durable: true, freeIfInterrupted: true };
  const generation = await withCallerPaths(requested, () =>
    generations.begin({ request, credential, requestId, telemetry, ...terms }),
  );
  const head = responseHead(requested, generation);
  const { id, input } = ownInput(requested);
  const first = createMessage([], { head, limits: generation.limits });
  beginning.add(id);
  try {
    const inherited = await storeResponse(dependencies, requested, head, { state: 'running' });
    await answerStore?.keep(requestId, [first], 'kept');
    const job = new BackgroundJob(dependencies, generation, requested, { head, input, inherited });
    jobs.set(id, job);
    generation.start(job);
    return first;
  } catch (thrown) {
    // Nothing was sent upstream: voids the hold, and deletes the stored response.
    generation.interrupt();
    await new Promise<void>(resolve => {
      generation.start({ events: () => undefined, end: () => resolve() });
    });
    // If deleting fails too, the response is later found as unfinished without a process that runs it, and is ended then.
    await documents.delete({ kind: 'response', id }).catch(() => undefined);
    throw thrown;
  } finally {
    beginning.delete(id);
  }
}
