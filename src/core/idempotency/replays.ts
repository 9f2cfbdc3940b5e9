import { createHash } from 'node:crypto';
import { type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { fingerprintHeader, idempotencyKeyHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import { pull, pump, type Sink, type StreamControl } from '../../lib/push.ts';
import type { CallContext } from '../../lib/pushed-service.ts';
import type { Documents } from '../../store/documents.ts';
import type { Credential, Ledger, UsageRow } from '../../store/ledger.ts';
import { isFree } from '../generation/admission.ts';
import { limitState } from '../limit-state.ts';
import { startCall } from '../start-call.ts';
import { type AnswerHead, type Binding, headBytes, headOf, MessageLog, messagesOf } from './kept-answer.ts';
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
  /** The messages of the answer. */
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

/** A request that is being answered, or whose kept answer is being looked for. */
interface Claim {
  readonly fingerprint: Uint8Array;
  /** Resolves when it is known whether an answer was kept; undefined: none was, and it is being made. */
  looking: Promise<void> | undefined;
}

/** Where a key's answer is kept, and for which body. */
interface Place {
  readonly id: string;
  readonly fingerprint: Uint8Array;
}

/** What repeats need of the ledger. */
type ReplayLedger = Pick<Ledger, 'findActivity' | 'windows'>;

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
      const place = { id: documentId(asked), fingerprint: fingerprintOf(asked) };
      const kept = await this.#claim(place, asked);
      call.attach(
        kept === undefined
          ? this.#make(place, asked, sink)
          : pump(signal => this.#repeat(place.id, asked, kept, signal), sink),
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

  /** Claims a key. Returns the kept answer; undefined: none is kept, and the caller makes one and releases the key at its end. */
  async #claim({ id, fingerprint }: Place, { credential }: KeyedCall): Promise<KeptAnswer | undefined> {
    for (let other = this.#claims.get(id); other !== undefined; other = this.#claims.get(id)) {
      if (other.looking === undefined) throw isSame(other.fingerprint, fingerprint) ? inProgress() : reused();
      await other.looking;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const claim: Claim = { fingerprint, looking: promise };
    this.#claims.set(id, claim);
    let isMade = false;
    try {
      const kept = await this.#find(id, credential.accountId);
      if (kept !== undefined && !isSame(kept.head.fingerprint, fingerprint)) throw reused();
      isMade = kept === undefined;
      return kept;
    } finally {
      claim.looking = undefined;
      if (!isMade) this.#claims.delete(id);
      resolve();
    }
  }

  /** The kept answer that is binding. What is not is what a crash has left: it is forgotten. */
  async #find(id: string, accountId: number): Promise<KeptAnswer | undefined> {
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
    asked: KeyedRequest<Desc>,
    { head, record }: KeptAnswer,
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
    if (head.failure !== undefined) throw head.failure;
  }

  /** Makes the answer, whether or not its caller stays to its end. */
  #make<Desc extends DescMessage>(
    place: Place,
    asked: KeyedRequest<Desc>,
    sink: Sink<MessageShape<Desc>>,
  ): StreamControl {
    const log = new MessageLog(asked.answer);
    let reader: typeof sink | undefined = sink;
    const control = asked.run(this.#keeper(place, log, asked), {
      message: message => {
        log.add(message);
        reader?.message(message);
      },
      end: error => {
        this.#claims.delete(place.id);
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
    { id, fingerprint }: Place,
    log: MessageLog<Desc>,
    { credential }: KeyedCall,
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
