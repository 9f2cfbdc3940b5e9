import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import type {
  CreateResponseRequest,
  CreateResponseResponse,
  ResponseHead,
  ResponseService,
} from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { Clock } from '../../lib/clock.ts';
import { type IdSource, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Documents } from '../../store/documents.ts';
import type { Ledger } from '../../store/ledger.ts';
import { authenticate } from '../credential.ts';
import type { Generations } from '../generation/generations.ts';
import { type Ask, type AskedResponse, headOf, inCallersWords, ownInput, settingsAsked } from './asked.ts';
import { BackgroundJob } from './background-job.ts';
import { compactConversation } from './compaction.ts';
import { type Conversation, Conversations, upstreamItems } from './conversations.ts';
import { Sealing } from './sealing.ts';
import { Sessions } from './sessions.ts';
import { answerOf, bodyOf, type BodyFacts, type StoredState } from './stored-response.ts';
import { StoredResponses } from './stored-responses.ts';

/** What responses are made with. */
export interface ResponseTools {
  readonly documents: Documents;
  readonly ledger: Ledger;
  readonly generations: Generations;
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
  readonly #jobs = new Map<string, BackgroundJob>();

  constructor(tools: ResponseTools) {
    this.#tools = tools;
    this.#sessions = new Sessions(tools.clock);
    this.#conversations = new Conversations(tools.documents, this.#sessions);
    this.#stored = new StoredResponses(tools, this.#conversations, this.#jobs);
  }

  /** ResponseService on these responses. */
  get service(): ServiceImpl<typeof ResponseService> {
    return {
      ...this.#stored.methods,
      createResponse: (request, context) => this.#create(request, context),
      countInputTokens: async ({ request }, context) => {
        const asked = await this.#ask(request ?? {}, context);
        return this.#inWords(asked, () => this.#tools.generations.count(asked.request, asked.credential));
      },
      compactConversation: async (request, context) => {
        const asked = await this.#ask({ ...request, store: false }, context);
        return this.#inWords(asked, () => compactConversation(this.#tools.generations, asked, context.signal));
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
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#jobs.values(), job => job.ended));
  }

  async *#create(
    request: CreateResponseRequest,
    context: HandlerContext,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const asked = await this.#ask(request, context);
    if (asked.background) yield* this.#inBackground(asked, context);
    else yield* this.#now(asked, context.signal);
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
      this.#evict({ session, previousResponseId });
      throw thrown;
    }
  }

  /** A turn that fails makes its session forget the response that it refers to. Source: decisions §4, "WebSocket". */
  #evict({ session, previousResponseId }: Pick<AskedResponse, 'session' | 'previousResponseId'>): void {
    if (session !== undefined && previousResponseId !== undefined) this.#sessions.evict(session, previousResponseId);
  }

  async #inWords<T>({ conversation }: { conversation: Conversation }, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      throw inCallersWords(thrown, conversation);
    }
  }

  /** A response that its caller waits for. */
  async *#now(asked: AskedResponse, signal: AbortSignal): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const turn = new Turn();
    try {
      yield* this.#answer(asked, turn, signal);
      this.#keepInSession(asked, turn);
    } catch (thrown) {
      turn.failure = thrown;
      if (!signal.aborted) this.#evict(asked);
      throw thrown;
    } finally {
      if (asked.store && turn.isShown && !turn.isStored) await this.#storeCut(asked, turn, signal.aborted);
    }
  }

  async *#answer(
    asked: AskedResponse,
    turn: Turn,
    signal: AbortSignal,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const { request, credential, requestId } = asked;
    const beforeSettle = asked.store
      ? (rest: readonly GenerationEvent[]) => this.#storeWhole(asked, turn, rest)
      : undefined;
    const begun = await this.#inWords(asked, () =>
      this.#tools.generations.begin({ request, credential, requestId, beforeSettle }),
    );
    const head = headOf(asked, begun);
    turn.head = head;
    const sealing = asked.sealing.step(request.include);
    for await (const events of begun.run.events(signal)) {
      if (asked.store || asked.session !== undefined) for (const event of events) turn.log.add(event);
      const shown = events.flatMap(event => sealing.push(event));
      yield message(shown, turn.isShown ? {} : { head, limits: begun.run.limits });
      turn.isShown = true;
    }
  }

  #keepInSession({ session, store, conversation }: AskedResponse, { head, log }: Turn): void {
    if (session === undefined || store || head === undefined) return;
    const { output } = answerOf(head.id, log.read());
    const { before, input } = conversation;
    this.#sessions.keep(session, head.id, [...before, ...input, ...output], input.length + output.length);
  }

  async #storeWhole(asked: AskedResponse, turn: Turn, rest: readonly GenerationEvent[]): Promise<void> {
    if (turn.head === undefined) throw new Error('an answer before its generation');
    const answer = answerOf(turn.head.id, [...turn.log.read(), ...rest]);
    await this.#put(asked, turn.head, { state: 'ended', answer });
    turn.isStored = true;
  }

  /** What was delivered of a response that its caller left, or that failed. */
  async #storeCut(asked: AskedResponse, { head, log, failure }: Turn, isLeft: boolean): Promise<void> {
    if (head === undefined) return;
    const answer = answerOf(head.id, log.read());
    const { code, message: text } = toGatewayError(failure);
    const ended =
      isLeft || failure === undefined
        ? { state: 'cancelled' as const }
        : {
            state: 'failed' as const,
            failure: { $typeName: 'tollgate.v1.ResponseFailure' as const, code, message: text },
          };
    // Its caller is gone, or is told of the failure that came first: a disk that fails as well changes neither.
    await this.#put(asked, head, { ...ended, answer }).catch(() => undefined);
  }

  /** Stores a response, with all that it goes on from where the store does not have that any more. */
  async #put(
    asked: AskedResponse,
    head: ResponseHead,
    { state, ...facts }: { state: StoredState } & Partial<BodyFacts>,
  ): Promise<{ readonly inherited: Conversation['before'] }> {
    const { credential, conversation } = asked;
    const { id, input } = ownInput(asked);
    const createdAtMs = Number(head.createdAtMs);
    const put = (parentId: string | undefined, inherited: Conversation['before']) =>
      this.#tools.documents.put({
        kind: 'response',
        id,
        accountId: credential.accountId,
        apiKeyId: credential.keyId,
        state,
        finished: state !== 'running',
        createdAtMs,
        endsAtMs: createdAtMs + this.#tools.lifetimeMs,
        body: bodyOf({ head, input, inherited, ...facts }),
        ...(parentId === undefined ? {} : { parentId }),
      });
    const { parentId, before } = conversation;
    const inherited = parentId === undefined ? before : [];
    const outcome = await put(parentId, inherited);
    if (outcome.kind === 'exists') throw new GatewayError('conflict', `There is a response ${id} already.`);
    if (outcome.kind === 'stored') return { inherited };
    await put(undefined, before);
    return { inherited: before };
  }

  /** A response in the background: answered at once, or followed. */
  async *#inBackground(
    asked: AskedResponse,
    context: HandlerContext,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const { request, credential, requestId, sealing, conversation } = asked;
    let job: BackgroundJob | undefined;
    const begun = await this.#inWords({ conversation }, () =>
      this.#tools.generations.begin({
        request: { ...request, delivery: Delivery.STREAMED },
        credential,
        requestId,
        beforeSettle: async rest => job?.store(rest),
        freeWhenCut: true,
      }),
    );
    const head = headOf(asked, begun);
    try {
      const { inherited } = await this.#put(asked, head, { state: 'running' });
      job = new BackgroundJob({ documents: this.#tools.documents, head, input: ownInput(asked).input, inherited });
    } catch (thrown) {
      begun.run.cut();
      // Nothing was sent: the hold is given back.
      await begun.run
        .events(context.signal)
        .next()
        .catch(() => undefined);
      throw thrown;
    }
    this.#jobs.set(head.id, job);
    job.start(begun.run, () => this.#jobs.delete(head.id));
    yield message([], { head, limits: begun.run.limits });
    if (request.delivery === Delivery.WHOLE) return;
    const name = { id: head.id, accountId: credential.accountId };
    const seal = sealing.step(request.include);
    for await (const step of this.#stored.follow(name, seal, context.signal)) yield message(step.events, step);
  }
}

/** One response while its caller waits for it. */
class Turn {
  readonly log = new EventLog();
  head: ResponseHead | undefined;
  /** Something of it has left: its id is known. */
  isShown = false;
  isStored = false;
  failure: unknown;
}

function message(
  events: GenerationEvent[],
  rest: Partial<Pick<CreateResponseResponse, 'head' | 'end' | 'limits'>>,
): CreateResponseResponse {
  const { head, end, limits = [] } = rest;
  return {
    $typeName: 'tollgate.v1.CreateResponseResponse',
    events,
    limits,
    ...(head === undefined ? {} : { head }),
    ...(end === undefined ? {} : { end }),
  };
}
