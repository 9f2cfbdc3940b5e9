import { toGatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { CreateResponseResponse, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import type { Generations } from '../generation/generations.ts';
import type { Keeper } from '../idempotency/replays.ts';
import { CallSignatures } from './call-signatures.ts';
import { type AskedResponse, headOf, inCallersWords } from './asked.ts';
import { createMessage } from './create-message.ts';
import type { ResponseWriter } from './response-writer.ts';
import { evict, type Sessions } from './sessions.ts';
import type { Settling } from './settling.ts';
import { answerOf } from './stored-response.ts';

/** What is known in memory of responses whose callers wait for them. */
export interface WaitedState {
  readonly sessions: Sessions;
  readonly settling: Settling;
}

/** Responses whose callers wait for them, streamed or whole. */
export class WaitedResponses {
  readonly #generations: Generations;
  readonly #writer: ResponseWriter;
  readonly #sessions: Sessions;
  readonly #settling: Settling;

  constructor(generations: Generations, writer: ResponseWriter, { sessions, settling }: WaitedState) {
    this.#generations = generations;
    this.#writer = writer;
    this.#sessions = sessions;
    this.#settling = settling;
  }

  /** A response that its caller waits for. */
  async *answer(
    asked: AskedResponse,
    signal: AbortSignal,
    keeper?: Keeper<CreateResponseResponse>,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const turn = new Turn(keeper);
    try {
      yield* this.#run(asked, turn, signal);
      // A session whose client has left has ended.
      if (!signal.aborted) this.#keepInSession(asked, turn);
    } catch (thrown) {
      turn.failure = thrown;
      if (!signal.aborted) evict(this.#sessions, asked);
      throw thrown;
    } finally {
      this.#settled(turn);
      if (asked.store && turn.isShown && !turn.isStored) await this.#storeCut(asked, turn, signal.aborted);
    }
  }

  async *#run(
    asked: AskedResponse,
    turn: Turn,
    signal: AbortSignal,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const { request, credential, requestId } = asked;
    const { keeper } = turn;
    const signatures = new CallSignatures();
    const asItems = (events: readonly GenerationEvent[]): GenerationEvent[] =>
      events.flatMap(event => signatures.push(event));
    const sealing = asked.sealing.step(request.include);
    const seal = (events: readonly GenerationEvent[]): GenerationEvent[] =>
      events.flatMap(event => sealing.push(event));
    const begun = await inCallersWords(asked, () =>
      this.#generations.begin({
        request,
        credential,
        requestId,
        beforeSettle: async last => {
          const rest = asItems(last);
          if (asked.store) await this.#storeWhole(asked, turn, rest);
          await keeper?.keep(requestId, [createMessage(seal(rest), turn.isShown ? {} : { head })]);
        },
        beforeBrokenSettle: keeper === undefined ? undefined : told => keeper.keepBroken(requestId, told),
      }),
    );
    const head = headOf(asked, begun);
    turn.head = head;
    for await (const batch of begun.run.events(signal)) {
      const events = asItems(batch);
      if (asked.store || asked.session !== undefined) for (const event of events) turn.log.add(event);
      // Before it is sent: a client that reads slowly keeps nobody else waiting.
      if (events.at(-1)?.event.case === 'completed') this.#settled(turn);
      yield createMessage(seal(events), turn.isShown ? {} : { head, limits: begun.run.limits });
      turn.isShown = true;
    }
  }

  #settled({ head }: Turn): void {
    if (head !== undefined) this.#settling.end(head.id);
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
    this.#settling.begin(turn.head.id);
    await this.#writer.put(asked, turn.head, { state: 'ended', answer });
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
    await this.#writer.put(asked, head, { ...ended, answer }).catch(() => undefined);
  }
}

/** One response while its caller waits for it. */
class Turn {
  readonly keeper: Keeper<CreateResponseResponse> | undefined;
  readonly log = new EventLog();
  head: ResponseHead | undefined;
  /** Something of it has left: its id is known. */
  isShown = false;
  isStored = false;
  failure: unknown;

  constructor(keeper: Keeper<CreateResponseResponse> | undefined) {
    this.keeper = keeper;
  }
}
