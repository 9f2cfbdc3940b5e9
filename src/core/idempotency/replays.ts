import { createHash } from 'node:crypto';
import { type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { fingerprintHeader, idempotencyKeyHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Documents } from '../../store/documents.ts';
import type { Credential, Ledger, UsageRow } from '../../ledger/ledger.ts';
import { type AnswerHead, type Binding, headBytes, headOf, MessageLog, messagesOf } from './kept-answer.ts';

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

/** A request that carries a key, as its service asks for its answer. */
export interface KeyedRequest<Desc extends DescMessage> {
  /** Of the call; the answer goes on when its caller goes away. */
  readonly context: HandlerContext;
  readonly credential: Credential;
  /** What `idempotencyKey` read. */
  readonly key: string;
  /** What was sent: another message is another body, where the edge has not said it better. */
  readonly request: MessageShape<DescMessage>;
  /** The messages of the answer. */
  readonly answer: Desc;
  /** Makes the answer and keeps it. Where it keeps nothing (what it throws, for one), the key is free. */
  readonly run: (keeper: Keeper<MessageShape<Desc>>) => AsyncIterable<MessageShape<Desc>>;
  /** How a kept message is told today: with its cost, which is known only after it was kept, and the key's windows. `record`: its request in the ledger. */
  readonly restore: (record: UsageRow | undefined) => Promise<(message: MessageShape<Desc>) => MessageShape<Desc>>;
}

/** Where a service keeps its answer. It is durable when the promise resolves; a service does what makes it binding after that. */
export interface Keeper<Message> {
  /** The whole answer: what was given, and the rest. `binding`: what makes it so; `settled` unless said. */
  keep(requestId: string, rest: readonly Message[], binding?: Binding): Promise<void>;
  /** An answer that breaks off after what was given. Keeps nothing where nothing was given, nor where that fails. */
  keepBroken(requestId: string, failure: unknown): Promise<void>;
}

/** The key that a call carries; undefined: none. Throws `invalid_request` for one that is too long. */
export function idempotencyKey({ requestHeader }: Pick<HandlerContext, 'requestHeader'>): string | undefined {
  const key = requestHeader.get(idempotencyKeyHeader);
  if (key === null || key === '') return undefined;
  if (key.length <= keyLengthMax) return key;
  throw new GatewayError('invalid_request', `An Idempotency-Key has at most ${keyLengthMax} characters.`, {
    param: 'Idempotency-Key',
    tip: 'Use a random id, a UUID for example, for each request that is no repeat.',
  });
}

/** A request that is being answered, or whose kept answer is being looked for. */
interface Claim {
  readonly fingerprint: Uint8Array;
  /** Resolves when it is known whether an answer was kept; undefined: none was, and it is being made. */
  looking: Promise<void> | undefined;
}

/** Where a key's answer stands. */
interface Place {
  readonly id: string;
  readonly claim: Claim;
}

/** The answers of requests with keys, of this process and those before it. */
export class Replays {
  readonly #documents: Documents;
  readonly #ledger: Pick<Ledger, 'findActivity'>;
  readonly #clock: Clock;
  readonly #claims = new Map<string, Claim>();

  constructor(documents: Documents, ledger: Pick<Ledger, 'findActivity'>, clock: Clock) {
    this.#documents = documents;
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /**
   * The answer to a request with a key: the kept one, or a new one. Throws `idempotency_key_reused`, `idempotency_in_progress`, and what the service
   * throws.
   */
  async *answer<Desc extends DescMessage>(
    asked: KeyedRequest<Desc>,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const id = documentId(asked);
    const fingerprint = fingerprintOf(asked);
    for (let other = this.#claims.get(id); other !== undefined; other = this.#claims.get(id)) {
      if (other.looking === undefined) throw isSame(other.fingerprint, fingerprint) ? inProgress() : reused();
      await other.looking;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const claim: Claim = { fingerprint, looking: promise };
    this.#claims.set(id, claim);
    let kept: KeptAnswer | undefined;
    let looked = false;
    try {
      kept = await this.#find(id, asked);
      if (kept !== undefined && !isSame(kept.head.fingerprint, fingerprint)) throw reused();
      looked = true;
    } finally {
      claim.looking = undefined;
      if (!looked || kept !== undefined) this.#claims.delete(id);
      resolve();
    }
    if (kept === undefined) yield* this.#make({ id, claim }, asked);
    else yield* this.#repeat(id, asked, kept);
  }

  /** The kept answer that is binding. What is not is what a crash has left: it is forgotten. */
  async #find(id: string, { credential: { accountId } }: KeyedRequest<DescMessage>): Promise<KeptAnswer | undefined> {
    const document = await this.#documents.find({ kind, id }, accountId);
    if (document === undefined) return undefined;
    const head = headOf(document.body);
    const found = await this.#ledger.findActivity(accountId, head.requestId);
    if (await this.#isBinding(head.binding, found !== undefined)) return { head, record: found?.row };
    await this.#documents.delete({ kind, id });
    return undefined;
  }

  async #isBinding(binding: Binding, isSettled: boolean): Promise<boolean> {
    if (binding === 'kept') return true;
    return binding === 'settled' ? isSettled : (await this.#documents.find(binding)) !== undefined;
  }

  async *#repeat<Desc extends DescMessage>(
    id: string,
    { answer, restore }: KeyedRequest<Desc>,
    { head, record }: KeptAnswer,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const restored = await restore(record);
    let after = -1;
    for (;;) {
      const pieces = await this.#documents.chunks({ kind, id }, after, piecesMax);
      for (const { seq, content } of pieces) {
        after = seq;
        for (const message of messagesOf(answer, content)) yield restored(message);
      }
      if (pieces.length === 0) break;
    }
    if (head.failure !== undefined) throw head.failure;
  }

  /** Makes the answer, whether or not somebody reads it to the end. */
  async *#make<Desc extends DescMessage>(
    place: Place,
    asked: KeyedRequest<Desc>,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const log = new MessageLog(asked.answer);
    const messages = asked.run(this.#keeper(place, log, asked))[Symbol.asyncIterator]();
    const release = (): void => {
      if (this.#claims.get(place.id) === place.claim) this.#claims.delete(place.id);
    };
    const advance = async (): Promise<IteratorResult<MessageShape<Desc>, unknown>> => {
      try {
        const next = await messages.next();
        if (next.done === true) release();
        else log.add(next.value);
        return next;
      } catch (thrown) {
        release();
        throw thrown;
      }
    };
    const goOn = async (): Promise<void> => {
      try {
        while ((await advance()).done !== true);
      } catch {
        // Nobody is left to be told; the ledger and a repeat know.
      }
    };
    const left = (): void => void goOn();
    const { signal } = asked.context;
    signal.addEventListener('abort', left, { once: true });
    if (signal.aborted) left();
    let isRead = false;
    try {
      for (let next = await advance(); next.done !== true; next = await advance()) yield next.value;
      isRead = true;
    } finally {
      signal.removeEventListener('abort', left);
      if (!isRead) left();
    }
  }

  #keeper<Desc extends DescMessage>(
    { id, claim: { fingerprint } }: Place,
    log: MessageLog<Desc>,
    { credential }: KeyedRequest<Desc>,
  ): Keeper<MessageShape<Desc>> {
    const put = async (head: Omit<AnswerHead, 'fingerprint'>): Promise<void> => {
      const createdAtMs = this.#clock.now();
      const outcome = await this.#documents.put({
        kind,
        id,
        accountId: credential.accountId,
        apiKeyId: credential.keyId,
        state: 'kept',
        // Nothing is lost but the repeat: it may make room for others.
        finished: true,
        createdAtMs,
        endsAtMs: createdAtMs + lifetimeMs,
        body: headBytes({ ...head, fingerprint }),
        chunks: log.end(),
      });
      if (outcome.kind !== 'stored') throw new Error(`an answer for ${id} is kept already`);
    };
    return {
      keep: async (requestId, rest, binding = 'settled') => {
        for (const message of rest) log.add(message);
        await put({ requestId, binding, failure: undefined });
      },
      keepBroken: async (requestId, failure) => {
        if (log.isEmpty) return;
        // The key is free then, which costs the customer no more than the key's absence would have.
        await put({ requestId, binding: 'settled', failure: toGatewayError(failure) }).catch(() => undefined);
      },
    };
  }
}

/** An answer that was found. */
interface KeptAnswer {
  readonly head: AnswerHead;
  /** Its request in the ledger; undefined: it has not settled yet, and need not have. */
  readonly record: UsageRow | undefined;
}

/** A key belongs to the API key that sent it. */
function documentId({ credential, key }: KeyedRequest<DescMessage>): string {
  return createHash('sha256').update(`${credential.keyId}\0${key}`).digest('base64url');
}

/** What a body is compared by: the edge's hash of path and bytes, or that of the method and the message. */
function fingerprintOf({ context, request }: KeyedRequest<DescMessage>): Uint8Array {
  const named = context.requestHeader.get(fingerprintHeader);
  if (named !== null) return Buffer.from(named, 'base64url');
  const hash = createHash('sha256').update(`${context.service.typeName}/${context.method.name}\0`);
  return hash.update(toBinary(context.method.input, request)).digest();
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}

function reused(): GatewayError {
  return new GatewayError('idempotency_key_reused', 'This Idempotency-Key came with another path or body before.');
}

function inProgress(): GatewayError {
  const message = 'The first request with this Idempotency-Key is still being answered.';
  return new GatewayError('idempotency_in_progress', message, { retryAfterMs: inProgressRetryMs });
}
