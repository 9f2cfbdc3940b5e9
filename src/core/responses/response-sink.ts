import type { GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import type { CreateResponseResponse, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { Sink } from '../../lib/push.ts';
import type { Generation } from '../generation/generation.ts';
import type { GenerationSink } from '../generation/generation-sink.ts';
import type { StartingCall } from '../starting-call.ts';
import type { AnswerStore } from '../idempotency/replays.ts';
import { addToConversation, type RequestedResponse, createMessage, responseHead } from './requested-response.ts';
import { CallSignatures } from './call-signatures.ts';
import { storeResponse, type WriterDependencies } from './response-writer.ts';
import type { SealStep } from './sealing.ts';
import type { Sessions } from './sessions.ts';
import type { Settling } from './settling.ts';
import { failedWith, toAnswer } from './stored-response.ts';

/** The dependencies of `ResponseSink`. */
export interface ResponseSinkDependencies extends WriterDependencies {
  readonly sessions: Sessions;
  readonly settling: Settling;
}

/** The client that waits for a response. */
export interface ResponseCaller {
  /** The client's control of the generation. */
  readonly call: StartingCall;
  readonly sink: Sink<CreateResponseResponse>;
  /** Stores the answer for repeated requests with the same Idempotency-Key; absent: it is not stored. */
  readonly answerStore?: AnswerStore<CreateResponseResponse>;
}

/** The fields of a generation that the response needs. */
export interface AnsweringGeneration extends Pick<Generation, 'model' | 'createdAtMs' | 'limits'> {
  /** True if nothing is generated, so that there is no charge and no record. Absent: there is a charge. */
  readonly isFree?: true;
}

/** Sends the answer of a generation to the client that waits for it, streamed or not, and stores it before it is charged. */
export class ResponseSink implements GenerationSink {
  readonly #dependencies: ResponseSinkDependencies;
  readonly #requested: RequestedResponse;
  readonly #caller: ResponseCaller;
  readonly #head: ResponseHead;
  readonly #limits: LimitState[];
  readonly #isFree: boolean;
  readonly #signatures = new CallSignatures();
  readonly #sealing: SealStep;
  /** The events so far. Collected only if the response is stored, or belongs to a session or a conversation. */
  readonly #log = new EventLog();
  /** True if something was sent, so that the client knows the response's id. */
  #isShown = false;
  #isStored = false;

  constructor(
    dependencies: ResponseSinkDependencies,
    requested: RequestedResponse,
    generation: AnsweringGeneration,
    caller: ResponseCaller,
  ) {
    this.#dependencies = dependencies;
    this.#requested = requested;
    this.#caller = caller;
    this.#head = responseHead(requested, generation);
    this.#limits = generation.limits;
    this.#isFree = generation.isFree === true;
    this.#sealing = requested.sealing.step(requested.request.include);
  }

  events(batch: GenerationEvent[]): void {
    const events = this.#signatures.push(batch);
    const { store, session, lock } = this.#requested;
    if (store || lock !== undefined ? !this.#isStored : session !== undefined)
      for (const event of events) this.#log.add(event);
    const first = this.#isShown ? {} : { head: this.#head, limits: this.#limits };
    this.#isShown = true;
    this.#caller.sink.message(createMessage(this.#sealing.push(events), first));
  }

  async beforeSettle(last: readonly GenerationEvent[]): Promise<void> {
    const { answerStore } = this.#caller;
    const rest = this.#signatures.push(last);
    if (this.#requested.store || this.#requested.lock !== undefined) await this.#storeWhole(rest);
    const first = this.#isShown ? {} : { head: this.#head };
    await answerStore?.keep(this.#requested.requestId, [createMessage(this.#sealing.push(rest), first)]);
  }

  async beforeBrokenSettle(error: Error): Promise<void> {
    await this.#caller.answerStore?.keepFailure(this.#requested.requestId, error);
  }

  end(error?: Error): void {
    const { store, session, previousResponseId, lock, room } = this.#requested;
    const { call, sink } = this.#caller;
    lock?.release();
    this.#dependencies.settling.end(this.#head.id);
    if (error !== undefined) this.#dependencies.sessions.evict(session, previousResponseId);
    // If the client has disconnected, its session has ended, and nothing is kept in it.
    else if (!call.isCancelled) this.#keepInSession();
    const end = (): void => {
      room.release();
      sink.end(error);
    };
    if (error === undefined || !store || !this.#isShown || this.#isStored) end();
    else void this.#storeCut(error).then(end);
  }

  #keepInSession(): void {
    const { session, store, conversation } = this.#requested;
    if (session === undefined || store) return;
    const { output } = toAnswer(this.#head.id, this.#log.read());
    const { before, beforeBytes, input } = conversation;
    const items = [...before, ...input, ...output];
    const ownCount = input.length + output.length;
    this.#dependencies.sessions.keep(session, this.#head.id, { items, ownCount, beforeBytes });
  }

  async #storeWhole(rest: readonly GenerationEvent[]): Promise<void> {
    const answer = toAnswer(this.#head.id, [...this.#log.read(), ...rest]);
    const { store, requestId } = this.#requested;
    if (store) {
      this.#dependencies.settling.begin(this.#head.id);
      await storeResponse(this.#dependencies, this.#requested, this.#head, { state: 'ended', answer });
    }
    await addToConversation(this.#requested, answer.output, this.#isFree ? undefined : requestId);
    this.#isStored = true;
  }

  /** Stores the delivered part of a response that failed, or whose client disconnected. */
  async #storeCut(error: Error): Promise<void> {
    const answer = toAnswer(this.#head.id, this.#log.read());
    const ended = this.#caller.call.isCancelled ? { state: 'cancelled' as const } : failedWith(error);
    // If this fails too, nobody has to know: the client has disconnected, or gets the first error.
    await storeResponse(this.#dependencies, this.#requested, this.#head, { ...ended, answer }).catch(() => undefined);
  }
}
