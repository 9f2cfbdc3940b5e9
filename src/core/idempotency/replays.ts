import { createHash } from 'node:crypto';
import { type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type KeptAnswer, KeptAnswerSchema } from '../../gen/tollgate/v1/replay_pb.ts';
import { fingerprintHeader, idempotencyKeyHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import { pull, pump, type Sink, type StreamControl } from '../../lib/push.ts';
import type { CallContext } from '../../lib/pushed-service.ts';
import type { DocumentName, Documents } from '../../store/documents.ts';
import type { Credential, Ledger, UsageRow } from '../../ledger/ledger.ts';
import { isFree } from '../generation/admission.ts';
import { limitState } from '../limit-state.ts';
import { startCall } from '../starting-call.ts';
import { answerBody, type AnswerFacts, type Binding, MessageLog, messagesOf, repeatedFailure } from './kept-answer.ts';
import type { RestoredFacts } from './restored-event.ts';

/**
 * Idempotency-Key: one upstream call, one charge and the same answer, however often a request is repeated within a day. An answer is durable before it
 * is charged, and binding only once the charge is: what a crash left uncharged is forgotten, and its key is free. Which keys are being answered is known
 * in memory alone, for the same reason. Source: decisions §6.
 */

const lifetimeMs = 86_400_000;
const keyLengthMax = 255;
/** What the repeat of a request that still runs is told to wait. */
const inProgressRetryMs = 1_000;
const kind = 'replay';
/** How many pieces of an answer are read at a time. */
const piecesMax = 8;

/** A request with a key. */
interface KeyedCall {
  readonly context: CallContext;
  readonly credential: Credential;
  /** What `idempotencyKey` has read. */
  readonly key: string;
  /** What was sent: another message is another body, unless the edge sends a fingerprint of the body. */
  readonly request: MessageShape<DescMessage>;
  /** The model that was asked for. Absent: a repeat finds the request in the ledger, which names its model. */
  readonly model?: string | undefined;
}

/** A request with a key, and how its service answers it. */
export interface KeyedRequest<Desc extends DescMessage> extends KeyedCall {
  readonly answer: Desc;
  /** Starts the answer and keeps it. If it keeps nothing (because it fails, for one), the key is free. The answer is never cancelled: it goes on if its caller leaves. */
  readonly run: (keeper: Keeper<MessageShape<Desc>>, sink: Sink<MessageShape<Desc>>) => StreamControl;
  /** Returns a kept message as it is told now. */
  readonly restore: (message: MessageShape<Desc>, facts: RestoredFacts) => MessageShape<Desc>;
}

/** The same of a method with one reply. */
export interface UnaryKeyedRequest<Desc extends DescMessage> extends Omit<KeyedRequest<Desc>, 'run'> {
  readonly run: (keeper: Keeper<MessageShape<Desc>>) => Promise<MessageShape<Desc>>;
}

/** Where a service keeps its answer. It is durable when the promise resolves; a service does what makes it binding after that. */
export interface Keeper<Message> {
  /** The whole answer: what was given, and the rest. `binding`: what makes it so; `settled` unless said. */
  keep(requestId: string, rest: readonly Message[], binding?: Binding): Promise<void>;
  /** An answer that breaks off after what was given. Keeps nothing where nothing was given, nor where that fails. */
  keepBroken(requestId: string, failure: unknown): Promise<void>;
}

/** The key that a call carries; undefined: none. Throws `invalid_request` for one that is too long. */
export function idempotencyKey({ requestHeader }: Pick<CallContext, 'requestHeader'>): string | undefined {
  const key = requestHeader.get(idempotencyKeyHeader);
  if (key === null || key === '') return undefined;
  if (key.length <= keyLengthMax) return key;
  throw new GatewayError('invalid_request', `An Idempotency-Key has at most ${keyLengthMax} characters.`, {
    param: 'Idempotency-Key',
    tip: 'Use a random id, a UUID for example, for each request that is no repeat.',
  });
}

/** A key whose request is being answered, or whose kept answer is being looked for. */
interface Claim {
  /** Of the document that keeps the answer. */
  readonly id: string;
  readonly fingerprint: Uint8Array;
  /** Resolves when it is known whether an answer was kept; undefined: none was, and it is being made. */
  looking: Promise<unknown> | undefined;
}

/** What repeats need of the ledger. */
type ReplayLedger = Pick<Ledger, 'findActivity' | 'windows'>;

/** An answer that was found. */
interface FoundAnswer {
  readonly kept: KeptAnswer;
  /** Its request in the ledger; undefined: it has not settled yet, and need not have. */
  readonly record: UsageRow | undefined;
}

/** The answers of requests with keys, of this process and those before it. */
export class Replays {
  readonly #documents: Documents;
  readonly #ledger: ReplayLedger;
  readonly #clock: Clock;
  readonly #claims = new Map<string, Claim>();

  constructor(documents: Documents, ledger: ReplayLedger, clock: Clock) {
    this.#documents = documents;
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /**
   * Pushes the answer to a request with a key: the kept one, or a new one. Ends with `idempotency_key_reused`, `idempotency_in_progress`, or what the service
   * ends with.
   */
  answer<Desc extends DescMessage>(asked: KeyedRequest<Desc>, sink: Sink<MessageShape<Desc>>): StreamControl {
    return startCall(sink, async call => {
      const claim: Claim = { id: documentId(asked), fingerprint: fingerprintOf(asked), looking: undefined };
      const found = await this.#claim(claim, asked.credential.accountId);
      call.attach(
        found === undefined
          ? this.#make(claim, asked, sink)
          : pump(signal => this.#repeat(claim.id, asked, found, signal), sink),
      );
    });
  }

  /** Answers a request of a method with one reply. Throws what `answer` ends with. */
  async answerOne<Desc extends DescMessage>(asked: UnaryKeyedRequest<Desc>): Promise<MessageShape<Desc>> {
    const run: KeyedRequest<Desc>['run'] = (keeper, sink) =>
      pump(async function* () {
        yield await asked.run(keeper);
      }, sink);
    let reply: MessageShape<Desc> | undefined;
    for await (const each of pull<MessageShape<Desc>>(sink => this.answer({ ...asked, run }, sink))) reply = each;
    if (reply === undefined) throw new Error('an answer without its message');
    return reply;
  }

  /** Claims a key and looks for its answer. Undefined: none is kept, and the claim lasts until one is made. */
  async #claim(claim: Claim, accountId: number): Promise<FoundAnswer | undefined> {
    for (let other = this.#claims.get(claim.id); other !== undefined; other = this.#claims.get(claim.id)) {
      if (other.looking === undefined) throw isSame(other, claim) ? inProgress() : reused();
      await other.looking;
    }
    this.#claims.set(claim.id, claim);
    const looking = this.#find(claim.id, accountId);
    claim.looking = looking.catch(() => undefined);
    let isMissing = false;
    try {
      const found = await looking;
      if (found !== undefined && !isSame(found.kept, claim)) throw reused();
      isMissing = found === undefined;
      return found;
    } finally {
      claim.looking = undefined;
      if (!isMissing) this.#claims.delete(claim.id);
    }
  }

  /** Finds the kept answer that is binding. What is not is what a crash has left: it is forgotten. */
  async #find(id: string, accountId: number): Promise<FoundAnswer | undefined> {
    const document = await this.#documents.find({ kind, id }, accountId);
    if (document === undefined) return undefined;
    const kept = fromBinary(KeptAnswerSchema, document.body);
    const record = (await this.#ledger.findActivity(accountId, kept.requestId))?.row;
    if (await this.#isBinding(kept, record !== undefined)) return { kept, record };
    await this.#documents.delete({ kind, id });
    return undefined;
  }

  async #isBinding({ binding }: KeptAnswer, isSettled: boolean): Promise<boolean> {
    if (binding.case === 'kept') return true;
    if (binding.case === undefined) return isSettled;
    return (await this.#documents.find(binding.value as DocumentName)) !== undefined;
  }

  async *#repeat<Desc extends DescMessage>(
    id: string,
    asked: KeyedRequest<Desc>,
    { kept, record }: FoundAnswer,
    signal: AbortSignal,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const { answer, credential, model, restore } = asked;
    const free = isFree(record?.model ?? model ?? '');
    const windows = free || credential.hasWindow ? await this.#ledger.windows(credential.keyId, free) : [];
    const facts = { costNanoUsd: record?.costNanoUsd ?? 0n, limits: windows.map(limitState) };
    let after = -1;
    while (!signal.aborted) {
      const pieces = await this.#documents.chunks({ kind, id }, after, piecesMax);
      for (const { seq, content } of pieces) {
        after = seq;
        for (const message of messagesOf(answer, content)) yield restore(message, facts);
      }
      if (pieces.length === 0) break;
    }
    if (kept.failure !== undefined) throw repeatedFailure(kept.failure, kept.requestId);
  }

  /** Makes the answer, whether or not its caller stays to its end. */
  #make<Desc extends DescMessage>(
    claim: Claim,
    asked: KeyedRequest<Desc>,
    sink: Sink<MessageShape<Desc>>,
  ): StreamControl {
    const log = new MessageLog(asked.answer);
    let reader: typeof sink | undefined = sink;
    const control = asked.run(this.#keeper(claim, log, asked), {
      message: message => {
        log.add(message);
        reader?.message(message);
      },
      end: error => {
        this.#claims.delete(claim.id);
        reader?.end(error);
        reader = undefined;
      },
    });
    return {
      cancel: () => {
        if (reader === undefined) return;
        reader = undefined;
        // The caller may have paused it, and nobody else will let it go on.
        control.resume();
        queueMicrotask(() => sink.end(new ConnectError('The call was cancelled.', Code.Canceled)));
      },
      pause: () => {
        if (reader !== undefined) control.pause();
      },
      resume: () => control.resume(),
    };
  }

  #keeper<Desc extends DescMessage>(
    { id, fingerprint }: Claim,
    log: MessageLog<Desc>,
    { credential }: KeyedCall,
  ): Keeper<MessageShape<Desc>> {
    const put = async (facts: Omit<AnswerFacts, 'fingerprint'>): Promise<void> => {
      const createdAtMs = this.#clock.now();
      const outcome = await this.#documents.put({
        kind,
        id,
        accountId: credential.accountId,
        apiKeyId: credential.keyId,
        state: 'kept',
        // It stays to its end whatever else is stored: see `Eviction`.
        finished: true,
        createdAtMs,
        endsAtMs: createdAtMs + lifetimeMs,
        body: answerBody({ ...facts, fingerprint }),
        chunks: log.end(),
      });
      if (outcome.kind !== 'stored') throw new Error(`an answer for ${id} is kept already`);
    };
    return {
      keep: async (requestId, rest, binding = 'settled') => {
        for (const message of rest) log.add(message);
        await put({ requestId, binding });
      },
      keepBroken: async (requestId, failure) => {
        if (log.isEmpty) return;
        // The key is free then, which costs the customer no more than the key's absence would have.
        await put({ requestId, binding: 'settled', failure: toGatewayError(failure) }).catch(() => undefined);
      },
    };
  }
}

/** A key belongs to the API key that sent it. */
function documentId({ credential, key }: KeyedCall): string {
  return createHash('sha256').update(`${credential.keyId}\0${key}`).digest('base64url');
}

/** What a body is compared by: the edge's hash of path and bytes, or that of the method and the message. */
function fingerprintOf({ context, request }: KeyedCall): Uint8Array {
  const named = context.requestHeader.get(fingerprintHeader);
  if (named !== null) return Buffer.from(named, 'base64url');
  const hash = createHash('sha256').update(`${context.service.typeName}/${context.method.name}\0`);
  return hash.update(toBinary(context.method.input, request)).digest();
}

function isSame(one: Pick<Claim, 'fingerprint'>, other: Pick<Claim, 'fingerprint'>): boolean {
  return Buffer.compare(one.fingerprint, other.fingerprint) === 0;
}

function reused(): GatewayError {
  return new GatewayError('idempotency_key_reused', 'This Idempotency-Key came with another path or body before.');
}

function inProgress(): GatewayError {
  const message = 'The first request with this Idempotency-Key is still being answered.';
  return new GatewayError('idempotency_in_progress', message, { retryAfterMs: inProgressRetryMs });
}
