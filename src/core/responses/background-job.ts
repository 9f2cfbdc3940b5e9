import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type ResponseHead, ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { DocumentChange, Documents } from '../../store/documents.ts';
import type { Generation } from '../generation/generation.ts';
import type { GenerationSink } from '../generation/generation-sink.ts';
import { CallSignatures } from './call-signatures.ts';
import { type Answer, bodyOf, chunkOf, type EndFacts, failedWith, toAnswer } from './stored-response.ts';

/** What a job writes, where, and on whose behalf. */
export interface JobParts {
  readonly documents: Documents;
  readonly runtime: Pick<Runtime, 'after'>;
  /** Admitted, not started. */
  readonly generation: Generation;
  readonly head: ResponseHead;
  readonly input: readonly Item[];
  readonly inherited: readonly Item[];
  /** Called when the end is stored, before the watchers are. */
  readonly onEnd: () => void;
}

/** Waits between attempts to store how a job has ended. */
const waitsMs = [100, 300, 1_000, 3_000];

/**
 * A response in the background, from its admission to its stored end. Each batch of events is durable before anybody sees it, so that a follower never sees what a restart
 * forgets. It belongs to nobody's connection.
 */
export class BackgroundJob implements GenerationSink {
  readonly #parts: JobParts;
  /** What is stored. */
  readonly #log = new EventLog();
  readonly #signatures = new CallSignatures();
  readonly #watchers: (() => void)[] = [];
  readonly #ended = Promise.withResolvers<void>();
  /** Events that are not stored yet. */
  #waiting: GenerationEvent[] = [];
  /** Resolves when nothing waits, or storing has failed; undefined: nothing is being stored. */
  #writing: Promise<void> | undefined;
  /** Why events can't be stored. */
  #failure: GatewayError | undefined;
  #status: ResponseStatus = ResponseStatus.QUEUED;
  /** Events in the stored log. */
  #written = 0;
  /** The answer is stored as a whole. */
  #isStored = false;
  #isCancelled = false;

  constructor(parts: JobParts) {
    this.#parts = parts;
  }

  /** Queued until the model begins, then in progress. */
  get status(): ResponseStatus {
    return this.#status;
  }

  /** What the model has said so far. */
  get answer(): Answer {
    return toAnswer(this.#parts.head.id, this.#log.read(), false);
  }

  /** Resolves when the end is stored; never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Resolves when more is stored, or the job has ended. */
  changed(): Promise<void> {
    return new Promise(resolve => {
      this.#watchers.push(resolve);
    });
  }

  /** Ends it; what was delivered is charged. */
  cancel(): void {
    this.#isCancelled = true;
    this.#parts.generation.cancel();
  }

  events(batch: GenerationEvent[]): void {
    if (this.#isStored) return;
    for (const event of this.#signatures.push(batch)) this.#waiting.push(event);
    if (this.#writing !== undefined) return;
    this.#parts.generation.pause();
    this.#writing = this.#write();
  }

  async beforeSettle(last: readonly GenerationEvent[]): Promise<void> {
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    const rest = this.#signatures.push(last);
    const shown = rest.filter(({ event }) => event.case !== 'completed');
    const chunks = shown.length === 0 ? [] : [{ seq: this.#written, content: chunkOf(shown) }];
    await this.#update({ ...this.#ending({ state: 'ended' }, rest), chunks });
    this.#isStored = true;
  }

  end(error?: Error): void {
    void this.#storeEnd(error).finally(() => {
      this.#parts.onEnd();
      this.#ended.resolve();
      this.#tellWatchers();
    });
  }

  /** Stores what waits, and what comes meanwhile. Never rejects; after a failure nothing is stored any more. */
  async #write(): Promise<void> {
    const { generation } = this.#parts;
    try {
      while (this.#waiting.length > 0) await this.#append(this.#waiting.slice());
    } catch (thrown) {
      this.#failure = toGatewayError(thrown);
      // The gateway's own failure costs nothing.
      generation.cut();
      return;
    }
    this.#writing = undefined;
    generation.resume();
  }

  async #append(events: readonly GenerationEvent[]): Promise<void> {
    await this.#update({ chunks: [{ seq: this.#written, content: chunkOf(events) }] });
    this.#waiting.splice(0, events.length);
    for (const event of events) this.#log.add(event);
    this.#written += events.length;
    this.#status = ResponseStatus.IN_PROGRESS;
    this.#tellWatchers();
  }

  /** Stores what became of an answer that is not stored as a whole. Never rejects. */
  async #storeEnd(error: unknown): Promise<void> {
    if (this.#isStored) return;
    await this.#writing;
    // What is charged and told follows from the generation; this only says what became of it.
    const facts = this.#isCancelled
      ? { state: 'cancelled' as const }
      : this.#parts.generation.isCut
        ? { state: 'restarted' as const }
        : failedWith(error);
    const change = this.#ending(facts, this.#waiting);
    for (const waitMs of waitsMs) {
      try {
        await this.#update(change);
        return;
      } catch (thrown) {
        if (toGatewayError(thrown).code !== 'overloaded') return;
        await new Promise<void>(resolve => {
          this.#parts.runtime.after(waitMs, resolve);
        });
      }
    }
    // It stays unfinished: the next start finds it so, and says what the ledger knows of it.
  }

  /** The end of the stored response: what is stored and `rest`. */
  #ending(
    { state, failure }: EndFacts,
    rest: readonly GenerationEvent[],
  ): Pick<DocumentChange, 'state' | 'finished' | 'body'> {
    const { head, input, inherited } = this.#parts;
    const answer = toAnswer(head.id, [...this.#log.read(), ...rest]);
    return { state, finished: true, body: bodyOf({ head, input, inherited, answer, failure }) };
  }

  /** Throws if it is not there any more. */
  async #update(change: Omit<DocumentChange, 'kind' | 'id' | 'ifState'>): Promise<void> {
    const { id } = this.#parts.head;
    const outcome = await this.#parts.documents.update({ kind: 'response', id, ifState: 'running', ...change });
    if (outcome !== 'updated') throw new GatewayError('not_found', `The response ${id} was deleted.`);
  }

  #tellWatchers(): void {
    for (const resolve of this.#watchers.splice(0)) resolve();
  }
}
