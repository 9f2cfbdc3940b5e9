import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type ResponseFailure, type ResponseHead, ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { DocumentChange, Documents } from '../../store/documents.ts';
import type { GenerationRun } from '../generation/run.ts';
import { CallSignatures } from './call-signatures.ts';
import { type Answer, answerOf, bodyOf, chunkOf, type StoredState } from './stored-response.ts';

/** What a job writes down and where. */
export interface JobParts {
  readonly documents: Documents;
  readonly head: ResponseHead;
  readonly input: readonly Item[];
  readonly inherited: readonly Item[];
}

/** Waits between tries to write down how a job has ended. */
const waitsMs = [100, 300, 1_000, 3_000];

/**
 * A response in the background, from its admission to its stored end. Each batch of events is durable before anybody sees it, so that a follower
 * never sees what a restart forgets. It belongs to nobody's connection.
 */
export class BackgroundJob {
  readonly #parts: JobParts;
  readonly #abort = new AbortController();
  readonly #log = new EventLog();
  readonly #signatures = new CallSignatures();
  readonly #watchers: (() => void)[] = [];
  #run: GenerationRun | undefined;
  #status: ResponseStatus = ResponseStatus.QUEUED;
  /** Events in the stored log. */
  #written = 0;
  /** The answer is stored as a whole. */
  #isStored = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(parts: JobParts) {
    this.#parts = parts;
  }

  /** Queued until the model begins, then in progress. */
  get status(): ResponseStatus {
    return this.#status;
  }

  /** What the model has said so far. */
  get answer(): Answer {
    return answerOf(this.#parts.head.id, this.#log.read(), false);
  }

  /** Resolves when the end is stored; never rejects. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** Resolves when more is stored, or the job has ended. */
  changed(): Promise<void> {
    return new Promise(resolve => {
      this.#watchers.push(resolve);
    });
  }

  /** Ends it; what was delivered is charged. */
  cancel(): void {
    this.#abort.abort(new Error('cancelled'));
  }

  /** Runs an admitted generation whose `beforeSettle` is this job's `store`. `onEnd` is told before its watchers. */
  start(run: GenerationRun, onEnd: () => void): void {
    this.#run = run;
    this.#ended = this.#work(run).finally(() => {
      onEnd();
      this.#tellWatchers();
    });
  }

  /** Stores the whole answer, before it is charged. */
  async store(last: readonly GenerationEvent[]): Promise<void> {
    const rest = this.#asItems(last);
    const answer = answerOf(this.#parts.head.id, [...this.#log.read(), ...rest]);
    const shown = rest.filter(({ event }) => event.case !== 'completed');
    const chunks = shown.length === 0 ? [] : [{ seq: this.#written, content: chunkOf(shown) }];
    await this.#write({ ...this.#end('ended', answer), chunks });
    this.#isStored = true;
  }

  async #work(run: GenerationRun): Promise<void> {
    try {
      for await (const events of run.events(this.#abort.signal)) {
        if (!this.#isStored) await this.#append(this.#asItems(events));
      }
    } catch (thrown) {
      // What is charged and told follows from the run; here is only written down what became of it.
      if (!this.#isStored) await this.#storeEnd(run, thrown);
    }
  }

  #asItems(events: readonly GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#signatures.push(event));
  }

  async #append(events: readonly GenerationEvent[]): Promise<void> {
    for (const event of events) this.#log.add(event);
    try {
      await this.#write({
        ...this.#name,
        ifState: 'running',
        chunks: [{ seq: this.#written, content: chunkOf(events) }],
      });
    } catch (thrown) {
      // The gateway's own failure costs nothing.
      this.#run?.cut();
      throw thrown;
    }
    this.#written += events.length;
    this.#status = ResponseStatus.IN_PROGRESS;
    this.#tellWatchers();
  }

  /** Throws where it is not there any more. */
  async #write(change: DocumentChange): Promise<void> {
    const outcome = await this.#parts.documents.update(change);
    if (outcome !== 'updated') throw new GatewayError('not_found', `The response ${change.id} was deleted.`);
  }

  async #storeEnd(run: GenerationRun, thrown: unknown): Promise<void> {
    const answer = answerOf(this.#parts.head.id, this.#log.read());
    const { code, message } = toGatewayError(thrown);
    const failure: ResponseFailure = { $typeName: 'tollgate.v1.ResponseFailure', code, message };
    const change = this.#abort.signal.aborted
      ? this.#end('cancelled', answer)
      : run.isCut
        ? this.#end('restarted', answer)
        : this.#end('failed', answer, failure);
    for (const waitMs of waitsMs) {
      try {
        await this.#write(change);
        return;
      } catch (error) {
        if (toGatewayError(error).code !== 'overloaded') return;
        await sleep(waitMs, undefined, { ref: false });
      }
    }
    // It stays unfinished: the next start finds it so, and says what the ledger knows of it.
  }

  #end(state: StoredState, answer: Answer, failure?: ResponseFailure): DocumentChange {
    const { head, input, inherited } = this.#parts;
    const body = bodyOf({ head, input, inherited, answer, failure });
    return { ...this.#name, ifState: 'running', state, finished: true, body };
  }

  get #name(): { readonly kind: 'response'; readonly id: string } {
    return { kind: 'response', id: this.#parts.head.id };
  }

  #tellWatchers(): void {
    for (const resolve of this.#watchers.splice(0)) resolve();
  }
}
