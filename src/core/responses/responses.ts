import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import type { WindowState } from '../../errors/gateway-error.ts';
import type { Completed } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type CompactConversationRequest,
  type CompactConversationResponse,
  CompactConversationResponseSchema,
  type CreateResponseRequest,
  type CreateResponseResponse,
  CreateResponseResponseSchema,
  type ResponseHead,
  type ResponseService,
} from '../../gen/tollgate/v1/response_pb.ts';
import { idempotencyKeyHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import { type IdSource, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Documents } from '../../store/documents.ts';
import type { Credential, Ledger, UsageRow } from '../../ledger/ledger.ts';
import { authenticate } from '../credential.ts';
import { isFree } from '../generation/admission.ts';
import { type Generations, restored } from '../generation/generations.ts';
import { idempotencyKey, type Keeper, type Replays } from '../idempotency/replays.ts';
import { type Ask, type AskedResponse, inCallersWords, settingsAsked } from './asked.ts';
import type { BackgroundJob } from './background-job.ts';
import { BackgroundResponses } from './background-responses.ts';
import { compactConversation, type CompactHow } from './compaction.ts';
import { Conversations, upstreamItems } from './conversations.ts';
import { createMessage, limitState } from './create-message.ts';
import { ResponseWriter } from './response-writer.ts';
import { Sealing } from './sealing.ts';
import { evict, Sessions } from './sessions.ts';
import { Settling } from './settling.ts';
import { StoredResponses } from './stored-responses.ts';
import { WaitedResponses } from './waited-responses.ts';

/** What responses are made with. */
export interface ResponseTools {
  readonly documents: Documents;
  readonly ledger: Ledger;
  readonly generations: Generations;
  readonly replays: Replays;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly box: SealedBox;
  /** How long a response is stored. */
  readonly lifetimeMs: number;
}

/** All responses of this process: those that run, and the way to those that are stored. */
export class Responses {
  readonly #tools: ResponseTools;
  readonly #sessions: Sessions;
  readonly #conversations: Conversations;
  readonly #stored: StoredResponses;
  readonly #waited: WaitedResponses;
  readonly #background: BackgroundResponses;

  constructor(tools: ResponseTools) {
    this.#tools = tools;
    this.#sessions = new Sessions(tools.clock);
    this.#conversations = new Conversations(tools.documents, this.#sessions);
    const jobs = new Map<string, BackgroundJob>();
    const settling = new Settling();
    this.#stored = new StoredResponses(tools, this.#conversations, { jobs, settling });
    const writer = new ResponseWriter(tools.documents, this.#conversations, tools.lifetimeMs);
    this.#waited = new WaitedResponses(tools.generations, writer, { sessions: this.#sessions, settling });
    this.#background = new BackgroundResponses({ ...tools, writer, stored: this.#stored, jobs });
  }

  /** ResponseService on these responses. */
  get service(): ServiceImpl<typeof ResponseService> {
    return {
      ...this.#stored.methods,
      createResponse: (request, context) =>
        context.requestHeader.has(idempotencyKeyHeader)
          ? this.#createOnce(request, context)
          : this.#create(request, context),
      countInputTokens: async ({ request }, context) => {
        const asked = await this.#ask(request ?? {}, context);
        return inCallersWords(asked, () => this.#tools.generations.count(asked.request, asked.credential));
      },
      compactConversation: async (request, context) => {
        const key = idempotencyKey(context);
        if (key === undefined) return this.#compact(request, context, { signal: context.signal });
        const credential = await authenticate(context, this.#tools.ledger, 'api_key');
        return firstOf(
          this.#tools.replays.answer({
            context,
            credential,
            key,
            request,
            answer: CompactConversationResponseSchema,
            run: keeper => this.#compactOnce(request, context, keeper),
            restore: async record => {
              const limits = await this.#limits(credential, record);
              return message => ({
                ...message,
                limits: limits.map(limitState),
                ...restoredCost(message.completed, record),
              });
            },
          }),
        );
      },
      endSession: async ({ session, responseId }, context) => {
        const { accountId } = await authenticate(context, this.#tools.ledger, 'api_key');
        if (responseId === undefined) this.#sessions.end({ accountId, session });
        else this.#sessions.evict({ accountId, session }, responseId);
        return {};
      },
    };
  }

  /** Writes down what became of responses that ran when an earlier process ended. To be awaited before anything is served. */
  recover(): Promise<void> {
    return this.#stored.recover();
  }

  /** Resolves when the end of every response in the background is stored. */
  idle(): Promise<void> {
    return this.#background.idle();
  }

  async *#create(
    request: CreateResponseRequest,
    context: HandlerContext,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const asked = await this.#ask(request, context);
    if (!asked.background) {
      yield* this.#waited.answer(asked, context.signal);
      return;
    }
    const begun = await this.#background.begin(asked);
    yield begun;
    if (begun.head !== undefined)
      yield* this.#background.follow(request, begun.head, { ...asked, signal: context.signal });
  }

  /** The same for a request that may be repeated: it goes on when its caller goes away. */
  async *#createOnce(
    request: CreateResponseRequest,
    context: HandlerContext,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const key = idempotencyKey(context);
    if (key === undefined) {
      yield* this.#create(request, context);
      return;
    }
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const messages = this.#tools.replays.answer({
      context,
      credential,
      key,
      request,
      answer: CreateResponseResponseSchema,
      run: keeper => this.#createKept(request, context, keeper),
      restore: async record => {
        const limits = await this.#limits(credential, record);
        return ({ head, events, end }) =>
          createMessage(
            events.map(event => restored(event, record?.costNanoUsd, limits)),
            { head, end, limits: head === undefined ? [] : limits.map(limitState) },
          );
      },
    });
    let head: ResponseHead | undefined;
    for await (const each of messages) {
      head ??= each.head;
      yield each;
    }
    // What runs in the background is kept as begun; whoever repeats it follows it as the first one does.
    if (head?.background === true)
      yield* this.#background.follow(request, head, { credential, signal: context.signal });
  }

  async *#createKept(
    request: CreateResponseRequest,
    context: HandlerContext,
    keeper: Keeper<CreateResponseResponse>,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const asked = await this.#ask(request, context);
    if (asked.background) yield await this.#background.begin(asked, keeper);
    else yield* this.#waited.answer(asked, never, keeper);
  }

  async *#compactOnce(
    request: CompactConversationRequest,
    context: HandlerContext,
    keeper: Keeper<CompactConversationResponse>,
  ): AsyncGenerator<CompactConversationResponse, void, undefined> {
    yield await this.#compact(request, context, { signal: never, keeper });
  }

  async #compact(
    request: CompactConversationRequest,
    context: HandlerContext,
    how: CompactHow,
  ): Promise<CompactConversationResponse> {
    const asked = await this.#ask({ ...request, store: false }, context);
    return inCallersWords(asked, () => compactConversation(this.#tools.generations, asked, how));
  }

  /** A key's windows as they are now, for the repeat of an answer. */
  async #limits(credential: Credential, record: UsageRow | undefined): Promise<WindowState[]> {
    const free = isFree(record?.model ?? '');
    if (credential.kind !== 'api_key' || !(free || credential.hasWindow)) return [];
    return this.#tools.ledger.windows(credential.keyId, free);
  }

  async #ask(ask: Ask, context: HandlerContext): Promise<AskedResponse> {
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const { accountId } = credential;
    const { previousResponseId } = ask;
    const session = ask.session === undefined ? undefined : { accountId, session: ask.session };
    try {
      const { request, store, background } = settingsAsked(ask);
      const sealing = new Sealing(this.#tools.box, accountId);
      const found = { accountId, previousResponseId, session, items: request.items };
      const conversation = await this.#conversations.find(found);
      const requestId = context.requestHeader.get(requestIdHeader) ?? publicRequestId(this.#tools.ids.next());
      const whole = { ...request, items: upstreamItems(conversation, sealing) };
      const asked = { credential, sealing, requestId, request: whole, settings: request, conversation };
      return { ...asked, previousResponseId, store, background, session };
    } catch (thrown) {
      evict(this.#sessions, { session, previousResponseId });
      throw thrown;
    }
  }
}

const never = new AbortController().signal;

async function firstOf<T>(messages: AsyncIterable<T>): Promise<T> {
  let first: T | undefined;
  // Read to its end: only then has it settled.
  for await (const each of messages) first ??= each;
  if (first === undefined) throw new Error('an answer without a message');
  return first;
}

function restoredCost(completed: Completed | undefined, record: UsageRow | undefined): { completed?: Completed } {
  return completed === undefined ? {} : { completed: { ...completed, costNanoUsd: record?.costNanoUsd ?? 0n } };
}
