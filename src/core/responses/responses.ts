import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import {
  type CompactConversationRequest,
  type CompactConversationResponse,
  CompactConversationResponseSchema,
  type CreateResponseRequest,
  type CreateResponseResponse,
  CreateResponseResponseSchema,
  type ResponseService,
} from '../../gen/tollgate/v1/response_pb.ts';
import { isOverloaded } from '../../errors/overloaded.ts';
import { type IdSource, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { BudgetLimits } from '../../lib/shared-budget.ts';
import { pump } from '../../lib/push.ts';
import type { CallContext, PushedService, UnaryContext } from '../../lib/pushed-service.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Claims } from '../../store/claims.ts';
import { uncounted } from '../../store/documents.ts';
import type { Credential, Ledger } from '../../ledger/ledger.ts';
import type { StoredConversations } from '../conversations/stored-conversations.ts';
import { authenticate } from '../credential.ts';
import { findTelemetry } from '../find-telemetry.ts';
import { HeldContent, type LargeMemory, type Patience } from '../held-content.ts';
import type { Generation } from '../generation/generation.ts';
import type { Generations } from '../generation/generations.ts';
import { idempotencyKey, type KeyedRequest, type AnswerStore, type Replays } from '../idempotency/replays.ts';
import { restoredEvent } from '../idempotency/restored-event.ts';
import type { BatchItem } from '../batches/batch-item.ts';
import { neverAborted, startCall } from '../starting-call.ts';
import {
  type ResponseFields,
  type RequestedResponse,
  createMessage,
  readFields,
  withCallerPaths,
} from './requested-response.ts';
import { beginInBackground, type BackgroundDependencies } from './background-job.ts';
import { compactConversation, type CompactHow } from './compaction.ts';
import { Elsewhere } from './elsewhere.ts';
import { Conversations, upstreamItems } from './conversations.ts';
import { prepareResponse } from './prepared-response.ts';
import { type ResponseCaller, ResponseSink, type ResponseSinkDependencies } from './response-sink.ts';
import type { WriterDependencies } from './response-writer.ts';
import { Sealing } from './sealing.ts';
import { Sessions } from './sessions.ts';
import { Settling } from './settling.ts';
import { StoredResponses } from './stored-responses.ts';

interface ResponseDependencies extends Omit<WriterDependencies, 'conversations'> {
  readonly ledger: Ledger;
  readonly generations: Generations;
  readonly replays: Replays;
  readonly runtime: Runtime;
  readonly ids: IdSource;
  readonly box: SealedBox;
  /** The claims that all gateways share; undefined: this is the only gateway. */
  readonly sharedClaims: Claims | undefined;
  /** The stored conversations that responses are added to. */
  readonly kept: StoredConversations;
  /** Called for failures that are the gateway's own fault, for the log. */
  readonly onDefect: BackgroundDependencies['onDefect'];
  /** Returns the memory limits for responses that are kept only as long as their session. */
  readonly sessionMemory: () => BudgetLimits;
  /** The memory of the stored contents that requests read. */
  readonly memory: LargeMemory;
}

/** How often to look for unfinished responses that no process is running. */
const pollMs = 10_000;

type KeyedCreate = KeyedRequest<typeof CreateResponseResponseSchema>;

/** Runs responses in this process, and reads stored ones. */
export class Responses {
  readonly #dependencies: ResponseDependencies &
    BackgroundDependencies &
    ResponseSinkDependencies & { readonly elsewhere: Elsewhere };
  readonly #stored: StoredResponses;

  constructor(dependencies: ResponseDependencies) {
    const { documents, runtime, sessionMemory } = dependencies;
    const sessions = new Sessions(runtime, sessionMemory);
    const conversations = new Conversations(documents, sessions, runtime);
    const jobs: BackgroundDependencies['jobs'] = new Map();
    this.#dependencies = {
      ...dependencies,
      conversations,
      sessions,
      jobs,
      settling: new Settling(),
      elsewhere: new Elsewhere({ ...dependencies, jobs }),
      beginning: new Set(),
    };
    this.#stored = new StoredResponses(this.#dependencies);
  }

  /** Returns the implementation of ResponseService. */
  get service(): PushedService<typeof ResponseService> {
    return {
      ...this.#stored.methods,
      createResponse: (request, context, sink) =>
        request.background
          ? pump(signal => this.#createInBackground(request, context, signal), sink)
          : startCall(sink, call => this.#create(request, context, { call, sink })),
      countInputTokens: async ({ request }, context) => {
        const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
        const requested = await this.#ask(request ?? {}, context, credential, { leaving: () => context.signal });
        try {
          const count = () => this.#dependencies.generations.count(requested.request, credential);
          return await withCallerPaths(requested, count);
        } finally {
          requested.room.release();
        }
      },
      compactConversation: (request, context) => this.#compact(request, context),
      endSession: async ({ session, responseId }, context) => {
        const { accountId } = await authenticate(context, this.#dependencies.ledger, 'api_key');
        if (responseId === undefined) this.#dependencies.sessions.end({ accountId, session });
        else this.#dependencies.sessions.evict({ accountId, session }, responseId);
        return {};
      },
    };
  }

  /**
   * Stores the end of responses that were running when an earlier process ended, then looks every 10 seconds for responses that no process is running. Await it before accepting requests.
   */
  async recover(): Promise<void> {
    await this.#stored.recover();
    this.#dependencies.elsewhere.watch();
    const look = this.#dependencies.runtime.after(pollMs, () => {
      // An end that can't be stored now is stored at the next poll.
      void this.#stored
        .recover()
        .catch(() => undefined)
        .finally(() => look.restart(pollMs));
    });
  }

  /** Resolves when the ends of all background responses are stored. */
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#dependencies.jobs.values(), job => job.ended));
  }

  /** Answers a client that waits for its response. A repeated Idempotency-Key gets the stored answer. */
  async #create(request: CreateResponseRequest, context: CallContext, caller: ResponseCaller): Promise<void> {
    const key = idempotencyKey(context);
    const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
    const answer = async (each: ResponseCaller): Promise<void> => {
      const requested = await this.#readLocked(request, context, credential, { leaving: () => each.call.signal });
      await releaseOnFailure(requested, async () => {
        if (request.generate === false) return prepareResponse(this.#dependencies, requested, each);
        const generation = await this.#begin(requested);
        each.call.attach(generation);
        generation.start(new ResponseSink(this.#dependencies, requested, generation, each));
      });
    };
    if (key === undefined) return answer(caller);
    const run: KeyedCreate['run'] = (answerStore, sink) => startCall(sink, call => answer({ call, sink, answerStore }));
    const keyed = { ...this.#toKeyedCreate(request, context, credential), key, run };
    caller.call.attach(this.#dependencies.replays.answer(keyed, caller.sink));
  }

  /** Answers an item of a batch, and stores the answer before it is charged. Rejects with the item's error. */
  async answerItem(request: CreateResponseRequest, item: BatchItem, caller: ResponseCaller): Promise<void> {
    const { credential, call, batchId } = item;
    // It is tried again later: an item that waits would keep those of other accounts from running.
    const requested = await this.#readLocked(request, { requestHeader: call }, credential, { neverWaits: true });
    await releaseOnFailure(requested, async () => {
      const generation = await this.#begin({ ...requested, batchId });
      caller.call.attach(generation);
      generation.start(new ResponseSink(this.#dependencies, requested, generation, caller));
    });
  }

  /** Yields the first message of a background response (for a repeated Idempotency-Key, that of the first request); then, if the client streams, all further messages. */
  async *#createInBackground(
    request: CreateResponseRequest,
    context: CallContext,
    signal: AbortSignal,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const key = idempotencyKey(context);
    const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
    // An answer for repeated requests is made even if the client has disconnected.
    const patience = key === undefined ? { leaving: () => signal } : {};
    const run = async (answerStore?: AnswerStore<CreateResponseResponse>): Promise<CreateResponseResponse> => {
      const requested = await this.#readLocked(request, context, credential, patience);
      return releaseOnFailure(requested, () => beginInBackground(this.#dependencies, requested, answerStore));
    };
    const keyed = this.#toKeyedCreate(request, context, credential);
    const first = key === undefined ? await run() : await this.#dependencies.replays.answerOne({ ...keyed, key, run });
    yield first;
    if (first.head === undefined || request.request?.delivery === Delivery.WHOLE) return;
    const { id, settings } = first.head;
    const { accountId } = credential;
    const sealing = new Sealing(this.#dependencies.box, accountId).step(settings?.include ?? []);
    // The response has just begun: what it generates is bounded as that of any running response.
    for await (const { events, end } of this.#stored.follow({ id, accountId }, { sealing, room: uncounted, signal }))
      yield createMessage(events, { end });
  }

  /** Returns how a create request with an Idempotency-Key is answered again. */
  #toKeyedCreate(
    request: CreateResponseRequest,
    context: CallContext,
    credential: Credential,
  ): Omit<KeyedCreate, 'key' | 'run'> {
    return {
      context,
      credential,
      request,
      model: request.request?.model,
      answer: CreateResponseResponseSchema,
      restore: ({ head, events, end }, facts) =>
        createMessage(
          events.map(event => restoredEvent(event, facts)),
          { head, end, limits: head === undefined ? [] : facts.limits },
        ),
    };
  }

  async #begin(requested: RequestedResponse): Promise<Generation> {
    const { request, credential, requestId, session, previousResponseId, telemetry, batchId } = requested;
    try {
      return await withCallerPaths(requested, () =>
        this.#dependencies.generations.begin({ request, credential, requestId, telemetry, batchId }),
      );
    } catch (thrown) {
      this.#dependencies.sessions.evict(session, previousResponseId);
      throw thrown;
    }
  }

  async #compact(request: CompactConversationRequest, context: UnaryContext): Promise<CompactConversationResponse> {
    const key = idempotencyKey(context);
    const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
    const compact = async (how: CompactHow): Promise<CompactConversationResponse> => {
      // The answer has the user's messages. One for repeated requests is made even if the client has disconnected.
      const patience = { leaving: () => how.signal, outlivesCall: how.answerStore !== undefined };
      const requested = await this.#ask({ ...request, store: false }, context, credential, patience);
      return releaseOnFailure(requested, async () => {
        const compacting = () => compactConversation(this.#dependencies.generations, requested, how);
        const compacted = await withCallerPaths(requested, compacting);
        requested.room.made();
        return compacted;
      });
    };
    if (key === undefined) return compact({ signal: context.signal });
    return this.#dependencies.replays.answerOne({
      context,
      credential,
      key,
      request,
      answer: CompactConversationResponseSchema,
      run: answerStore => compact({ signal: neverAborted, answerStore }),
      restore: ({ completed, ...rest }, { costNanoUsd, limits }) => ({
        ...rest,
        limits,
        ...(completed === undefined ? {} : { completed: { ...completed, costNanoUsd } }),
      }),
    });
  }

  /** Reads the request, and locks the stored conversation that it names. `patience`: how long it waits for the memory of the conversation. */
  async #readLocked(
    fields: ResponseFields,
    context: Pick<CallContext, 'requestHeader'>,
    credential: Credential,
    patience: Patience,
  ): Promise<RequestedResponse> {
    const { conversationId } = fields;
    if (conversationId === undefined) return this.#ask(fields, context, credential, patience);
    readFields(fields);
    const { accountId } = credential;
    const lock = await this.#dependencies.kept.lock({ id: conversationId, accountId });
    try {
      return { ...(await this.#ask(fields, context, credential, patience)), lock };
    } catch (thrown) {
      lock.release();
      throw thrown;
    }
  }

  async #ask(
    fields: ResponseFields,
    context: Pick<CallContext, 'requestHeader'>,
    credential: Credential,
    patience: Patience,
  ): Promise<RequestedResponse> {
    const { requestHeader } = context;
    const { accountId } = credential;
    const { previousResponseId, conversationId } = fields;
    const session = fields.session === undefined ? undefined : { accountId, session: fields.session };
    const room = new HeldContent({
      memory: this.#dependencies.memory,
      accountId,
      header: requestHeader,
      outlivesCall: true,
      ...patience,
    });
    try {
      const { request, store, background } = readFields(fields);
      const sealing = new Sealing(this.#dependencies.box, accountId);
      const found = { accountId, previousResponseId, session, items: request.items, room };
      const conversation =
        conversationId === undefined
          ? await this.#dependencies.conversations.find(found)
          : await this.#dependencies.conversations.continueFrom(
              await this.#dependencies.kept.read({ id: conversationId, accountId }, room),
              found,
            );
      const requestId = requestHeader.get(requestIdHeader) ?? publicRequestId(this.#dependencies.ids.next());
      const whole = { ...request, items: upstreamItems(conversation, sealing) };
      const requested = { credential, sealing, requestId, request: whole, settings: request, conversation };
      const rest = {
        previousResponseId,
        store,
        background,
        session,
        telemetry: findTelemetry(context),
        lock: undefined,
        room,
      };
      return { ...requested, ...rest };
    } catch (thrown) {
      room.release();
      // A request that found no memory has changed nothing, and is sent again.
      if (!isOverloaded(thrown)) this.#dependencies.sessions.evict(session, previousResponseId);
      throw thrown;
    }
  }
}

/** Runs `begin`. If it fails, unlocks the conversation of the response, and releases its memory. */
async function releaseOnFailure<T>({ lock, room }: RequestedResponse, begin: () => Promise<T>): Promise<T> {
  try {
    return await begin();
  } catch (thrown) {
    lock?.release();
    room.release();
    throw thrown;
  }
}
