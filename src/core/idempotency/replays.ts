import { createHash } from 'node:crypto';
import { type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type KeptAnswer, KeptAnswerSchema } from '../../gen/tollgate/v1/replay_pb.ts';
import { fingerprintHeader, idempotencyKeyHeader } from '../../lib/call-headers.ts';
import { parseLedgerId } from '../../lib/ids.ts';
import { pull, pump, type Sink, type StreamControl } from '../../lib/push.ts';
import type { CallContext } from '../../lib/pushed-service.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Claims } from '../../store/claims.ts';
import { type DocumentName, type Documents, uncounted } from '../../store/documents.ts';
import type { Credential, Ledger, UsageRow } from '../../ledger/ledger.ts';
import { isFree } from '../generation/admission.ts';
import { HeldContent, type LargeMemory } from '../held-content.ts';
import { limitState } from '../limit-state.ts';
import { startCall } from '../starting-call.ts';
import {
  answerBody,
  type AnswerFacts,
  type Binding,
  MessageLog,
  decodeMessages,
  repeatedFailure,
} from './kept-answer.ts';
import type { RestoredFacts } from './restored-event.ts';

/**
 * Implements Idempotency-Key: however often a request is repeated within a day, it is sent upstream once, charged once and gets the same answer. An answer is stored before it is charged, and is valid only if it was charged: if a crash leaves an answer uncharged, it is dropped, and its key can be used again.
 * Keys of running requests are kept in memory only, so a crash frees them too. Source: docs/accounting.md "Idempotency".
 */

const lifetimeMs = 86_400_000;
const keyLengthMax = 255;
/** The `retry-after` of a repeated request whose first one still runs. */
const inProgressRetryMs = 1_000;
const kind = 'replay';
/** How long a client's error waits until it is known whether the answer was charged. */
const endMs = 1_000;
/** How many pieces of an answer are read at a time. */
const piecesMax = 8;

/** A request with an Idempotency-Key. */
interface KeyedCall {
  readonly context: CallContext;
  readonly credential: Credential;
  /** The result of `idempotencyKey`. */
  readonly key: string;
  /** The request message. It is compared to find out whether a repeated request is the same, unless the edge sends a fingerprint of the body. */
  readonly request: MessageShape<DescMessage>;
  /** The requested model. Absent: it is read from the ledger's record of the first request. */
  readonly model?: string | undefined;
}

/** A request with an Idempotency-Key, and how its service answers it. */
export interface KeyedRequest<Desc extends DescMessage> extends KeyedCall {
  readonly answer: Desc;
  /**
   * Starts the answer and stores it. If nothing is stored (for example because the request fails), the key can be used again. The answer is never cancelled; it continues if its client disconnects.
   */
  readonly run: (answerStore: AnswerStore<MessageShape<Desc>>, sink: Sink<MessageShape<Desc>>) => StreamControl;
  /** Returns a stored message as it is to be sent now. */
  readonly restore: (message: MessageShape<Desc>, facts: RestoredFacts) => MessageShape<Desc>;
}

/** The same for a method with one reply. */
export interface UnaryKeyedRequest<Desc extends DescMessage> extends Omit<KeyedRequest<Desc>, 'run'> {
  readonly run: (answerStore: AnswerStore<MessageShape<Desc>>) => Promise<MessageShape<Desc>>;
}

/** Stores a service's answer. It is durable when the promise resolves; then the service makes it valid, for example by charging it. */
export interface AnswerStore<Message> {
  /**
   * Stores a complete answer: the messages that were already sent, and `rest`. `binding`: what makes it valid; absent: `settled`.
   */
  keep(requestId: string, rest: readonly Message[], binding?: Binding): Promise<void>;
  /** Stores the messages that were sent of an answer that broke off, and its failure. Stores nothing if nothing was sent. Never rejects. */
  keepFailure(requestId: string, failure: unknown): Promise<void>;
}

/** Returns the Idempotency-Key in a call's headers; undefined: none. Throws `invalid_request` if it is too long. */
export function idempotencyKey({ requestHeader }: Pick<CallContext, 'requestHeader'>): string | undefined {
  const key = requestHeader.get(idempotencyKeyHeader);
  if (key === null || key === '') return undefined;
  if (key.length <= keyLengthMax) return key;
  throw new GatewayError('invalid_request', `An Idempotency-Key has at most ${keyLengthMax} characters.`, {
    param: 'Idempotency-Key',
    tip: 'Use a random id, a UUID for example, for each new request.',
  });
}

/** A key whose request is running, or whose stored answer is being looked up. */
interface Claim {
  /** The id of the document with the answer. */
  readonly id: string;
  readonly fingerprint: Uint8Array;
  /** Resolves when it is known whether an answer is stored; undefined: none is, and one is being made. */
  looking: Promise<unknown> | undefined;
  /** The ledger's id of the request whose answer is stored and will be valid when it is charged; undefined: there is none, or its public id was not made by the gateway. */
  chargingId?: number | undefined;
}

/** The part of the ledger that `Replays` needs. */
type ReplayLedger = Pick<Ledger, 'findActivity' | 'windows' | 'void'>;

/** A stored answer. */
interface FoundAnswer {
  readonly kept: KeptAnswer;
  /** About how many bytes it has. */
  readonly bytes: number;
  /** The record of its request in the ledger; undefined: the request is not settled, and the answer is valid without that. */
  readonly record: UsageRow | undefined;
}

/** The dependencies of answering repeated requests. */
interface ReplayDependencies {
  readonly documents: Documents;
  readonly memory: LargeMemory;
  readonly ledger: ReplayLedger;
  readonly runtime: Runtime;
  /** The claims that are shared with other processes; absent: no other process can get the same key. */
  readonly sharedClaims?: Claims | undefined;
}

/** The answers of requests with an Idempotency-Key, of this process and earlier ones. */
export class Replays {
  readonly #documents: Documents;
  readonly #memory: LargeMemory;
  readonly #ledger: ReplayLedger;
  readonly #runtime: Runtime;
  readonly #shared: Claims | undefined;
  readonly #claims = new Map<string, Claim>();

  constructor({ documents, memory, ledger, runtime, sharedClaims }: ReplayDependencies) {
    this.#documents = documents;
    this.#memory = memory;
    this.#ledger = ledger;
    this.#runtime = runtime;
    this.#shared = sharedClaims;
  }

  /**
   * Pushes the answer to a request with a key: the stored answer if there is one, otherwise a new one. Ends with `idempotency_key_reused`, `idempotency_in_progress`, or the service's error if it fails.
   */
  answer<Desc extends DescMessage>(requested: KeyedRequest<Desc>, sink: Sink<MessageShape<Desc>>): StreamControl {
    return startCall(sink, async call => {
      const claim: Claim = { id: documentId(requested), fingerprint: makeFingerprint(requested), looking: undefined };
      const found = await this.#claim(claim, requested.credential.accountId);
      call.attach(
        found === undefined
          ? this.#make(claim, requested, sink)
          : pump(signal => this.#repeat(claim.id, requested, found, signal), sink),
      );
    });
  }

  /** Answers a request of a method with one reply. Throws the error with which `answer` ends. */
  async answerOne<Desc extends DescMessage>(requested: UnaryKeyedRequest<Desc>): Promise<MessageShape<Desc>> {
    const run: KeyedRequest<Desc>['run'] = (answerStore, sink) =>
      pump(async function* () {
        yield await requested.run(answerStore);
      }, sink);
    let reply: MessageShape<Desc> | undefined;
    for await (const each of pull<MessageShape<Desc>>(sink => this.answer({ ...requested, run }, sink))) reply = each;
    if (reply === undefined) throw new Error('an answer without its message');
    return reply;
  }

  /** Claims a key in this process and looks for its answer. Returns undefined if no answer is stored; then the claim lasts until one is made. */
  async #claim(claim: Claim, accountId: number): Promise<FoundAnswer | undefined> {
    for (let other = this.#claims.get(claim.id); other !== undefined; other = this.#claims.get(claim.id)) {
      if (other.looking === undefined) throw isSame(other, claim) ? inProgress() : reused();
      await other.looking;
    }
    this.#claims.set(claim.id, claim);
    const looking = this.#look(claim, accountId);
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

  /** Looks for a stored answer. If there is none, claims the key among all processes. Throws if another process is answering the key. */
  async #look(claim: Claim, accountId: number): Promise<FoundAnswer | undefined> {
    const { id } = claim;
    const shared = this.#shared;
    if (shared === undefined) return this.#find(id, accountId);
    // Read before the key is claimed, so that repeating an answer does not block other processes.
    const kept = await this.#read(id, accountId);
    if (kept !== undefined && kept !== 'not_binding') return kept;
    const mark = Buffer.from(claim.fingerprint).toString('base64url');
    const other = await shared.take(claimName(id), mark);
    if (other !== undefined) throw other === mark ? inProgress() : reused();
    let isMissing = false;
    try {
      // Looks again: another process may have stored an answer before the key was claimed.
      const found = await this.#find(id, accountId);
      isMissing = found === undefined;
      return found;
    } finally {
      if (!isMissing) shared.release(claimName(id));
    }
  }

  /** Returns the stored answer if it is valid. An answer that is not valid was left by a crash, and is deleted. */
  async #find(id: string, accountId: number): Promise<FoundAnswer | undefined> {
    const found = await this.#read(id, accountId);
    if (found !== 'not_binding') return found;
    await this.#documents.delete({ kind, id });
    return undefined;
  }

  async #read(id: string, accountId: number): Promise<FoundAnswer | 'not_binding' | undefined> {
    const document = await this.#documents.find({ kind, id }, uncounted, accountId);
    if (document === undefined) return undefined;
    const kept = fromBinary(KeptAnswerSchema, document.body);
    const record = (await this.#ledger.findActivity(accountId, kept.requestId))?.row;
    return (await this.#isBinding(kept, record !== undefined))
      ? { kept, record, bytes: document.bytes }
      : 'not_binding';
  }

  async #isBinding({ binding }: KeptAnswer, isSettled: boolean): Promise<boolean> {
    if (binding.case === 'kept') return true;
    if (binding.case === undefined) return isSettled;
    return (await this.#documents.facts(binding.value as DocumentName)) !== undefined;
  }

  /** Yields a stored answer, and holds its memory until it was sent. */
  async *#repeat<Desc extends DescMessage>(
    id: string,
    requested: KeyedRequest<Desc>,
    found: FoundAnswer,
    signal: AbortSignal,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const { accountId } = requested.credential;
    const room = new HeldContent({ memory: this.#memory, accountId, header: requested.context.requestHeader });
    try {
      const waiting = room.reserve(found.bytes);
      if (waiting !== undefined) await waiting;
      yield* this.#readAgain(id, requested, found, signal);
    } finally {
      room.made();
    }
  }

  async *#readAgain<Desc extends DescMessage>(
    id: string,
    requested: KeyedRequest<Desc>,
    { kept, record }: FoundAnswer,
    signal: AbortSignal,
  ): AsyncGenerator<MessageShape<Desc>, void, undefined> {
    const { answer, credential, model, restore } = requested;
    const free = isFree(record?.model ?? model ?? '');
    const windows = free || credential.hasWindow ? await this.#ledger.windows(credential.keyId, free) : [];
    const facts = { costNanoUsd: record?.costNanoUsd ?? 0n, limits: windows.map(limitState) };
    let after = -1;
    while (!signal.aborted) {
      const pieces = await this.#documents.chunks({ kind, id }, { after, limit: piecesMax }, uncounted);
      for (const { seq, content } of pieces) {
        after = seq;
        for (const message of decodeMessages(answer, content)) yield restore(message, facts);
      }
      if (pieces.length === 0) break;
    }
    if (kept.failure !== undefined) throw repeatedFailure(kept.failure, kept.requestId);
  }

  /** Makes the answer. It continues even if its client disconnects. */
  #make<Desc extends DescMessage>(
    claim: Claim,
    requested: KeyedRequest<Desc>,
    sink: Sink<MessageShape<Desc>>,
  ): StreamControl {
    const log = new MessageLog(requested.answer);
    let reader: typeof sink | undefined = sink;
    const control = requested.run(this.#answerStore(claim, log, requested), {
      message: message => {
        log.add(message);
        reader?.message(message);
      },
      end: error => {
        const end = (): void => {
          reader?.end(error);
          reader = undefined;
        };
        const { chargingId } = claim;
        if (error !== undefined && chargingId !== undefined) return this.#freeWhenEnded(claim, chargingId, end);
        this.#free(claim);
        end();
      },
    });
    return {
      cancel: () => {
        if (reader === undefined) return;
        reader = undefined;
        // The client may have paused the answer, and nobody else would resume it.
        control.resume();
        queueMicrotask(() => sink.end(new ConnectError('The call was cancelled.', Code.Canceled)));
      },
      pause: () => {
        if (reader !== undefined) control.pause();
      },
      resume: () => control.resume(),
    };
  }

  #free({ id }: Claim): void {
    this.#claims.delete(id);
    this.#shared?.release(claimName(id));
  }

  /**
   * Frees the key of a stored answer whose request then failed. The charge may still be stored although the client got an error, and a repeated request would be charged too. So the hold is voided first: when the ledger has replied to that, the charge was either made or never will be, and the key is freed. Calls `end` at
   * that time, but after a second at the latest, because the ledger may not be writable for a long time.
   */
  #freeWhenEnded(claim: Claim, id: number, end: () => void): void {
    let hasEnded = false;
    const endOnce = (): void => {
      if (!hasEnded) end();
      hasEnded = true;
    };
    const late = this.#runtime.after(endMs, endOnce);
    const known = (): void => {
      late.cancel();
      this.#free(claim);
      endOnce();
    };
    // If voiding fails, the process is ending or the ledger is broken. It is not known whether the charge was made, so the key stays claimed.
    this.#ledger.void(id, 'gateway_failure').then(known, endOnce);
  }

  #answerStore<Desc extends DescMessage>(
    claim: Claim,
    log: MessageLog<Desc>,
    { credential }: KeyedCall,
  ): AnswerStore<MessageShape<Desc>> {
    const { id, fingerprint } = claim;
    const put = async (facts: Omit<AnswerFacts, 'fingerprint'>): Promise<void> => {
      if (facts.binding === 'settled') claim.chargingId = parseLedgerId(facts.requestId);
      const createdAtMs = this.#runtime.now();
      const outcome = await this.#documents.put({
        kind,
        id,
        accountId: credential.accountId,
        apiKeyId: credential.keyId,
        state: 'kept',
        // Finished documents of this kind are kept until they expire, even if space is needed: see `Eviction`.
        finished: true,
        createdAtMs,
        endsAtMs: createdAtMs + lifetimeMs,
        body: answerBody({ ...facts, fingerprint }),
        chunks: log.end(),
      });
      if (outcome.kind !== 'stored') throw new Error(`an answer for ${id} is already stored`);
    };
    return {
      keep: async (requestId, rest, binding = 'settled') => {
        for (const message of rest) log.add(message);
        await put({ requestId, binding });
      },
      keepFailure: async (requestId, failure) => {
        if (log.isEmpty) return;
        // If this can't be stored, the key can be used again, as if the request had had none.
        await put({ requestId, binding: 'settled', failure: toGatewayError(failure) }).catch(() => undefined);
      },
    };
  }
}

/** Returns the id of a key's document. Each API key has its own Idempotency-Keys. */
function documentId({ credential, key }: KeyedCall): string {
  return createHash('sha256').update(`${credential.keyId}\0${key}`).digest('base64url');
}

/** Returns a hash by which requests are compared: the edge's hash of path and body, or else a hash of the method and the message. */
function makeFingerprint({ context, request }: KeyedCall): Uint8Array {
  const named = context.requestHeader.get(fingerprintHeader);
  if (named !== null) return Buffer.from(named, 'base64url');
  const hash = createHash('sha256').update(`${context.service.typeName}/${context.method.name}\0`);
  return hash.update(toBinary(context.method.input, request)).digest();
}

function claimName(id: string): string {
  return `key ${id}`;
}

function isSame(one: Pick<Claim, 'fingerprint'>, other: Pick<Claim, 'fingerprint'>): boolean {
  return Buffer.compare(one.fingerprint, other.fingerprint) === 0;
}

function reused(): GatewayError {
  return new GatewayError('idempotency_key_reused', 'This Idempotency-Key was already used with another path or body.');
}

function inProgress(): GatewayError {
  const message = 'The first request with this Idempotency-Key is still being answered.';
  return new GatewayError('idempotency_in_progress', message, { retryAfterMs: inProgressRetryMs });
}
