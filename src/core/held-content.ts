import { overloaded } from '../errors/overloaded.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderReader } from '../lib/push.ts';
import type { Holder, WaitingBudget } from '../lib/waiting-budget.ts';
import { type ContentRoom, largeContentBytes } from '../store/documents.ts';

/** The memory that large bodies of requests and large stored contents take, by account. */
export type LargeMemory = WaitingBudget<bigint>;

/** How long a call waits for memory, and keeps it. */
export interface Patience {
  /** Whether the contents are needed until `release`, also if the client disconnects; absent: until the answer was sent. */
  readonly outlivesCall?: boolean;
  /** Returns a signal that is aborted when nobody waits for the contents any more; absent: the headers of the call tell it, or somebody always does. Called only before a wait. */
  readonly leaving?: (() => AbortSignal) | undefined;
  /** Whether the call does not wait, but fails at once if there is no memory now; absent: it waits. */
  readonly neverWaits?: true;
}

/** The call that reads contents. */
interface ReadingCall extends Patience {
  readonly memory: LargeMemory;
  readonly accountId: number;
  /** The headers of the call, which may hold memory for its body; absent: it holds none. */
  readonly header?: HeaderReader;
}

/**
 * The memory for the stored contents that one request reads. It waits for its turn if there is not enough now, and is released once: by `release`, or when the answer of its call was sent or nobody waits for it any more.
 */
export class HeldContent implements ContentRoom, Holder {
  readonly #call: ReadingCall;
  readonly #owner: bigint;
  #isOver = false;
  /** Ends the waits; absent: nothing has waited, as for almost all requests. */
  #leaving: AbortController | undefined;
  #bytes = 0;
  /** Whether `release` is called when the answer was sent; undefined: nothing was reserved yet. */
  #isWatched: boolean | undefined;

  constructor(call: ReadingCall) {
    this.#call = call;
    this.#owner = BigInt(call.accountId);
  }

  /** The memory of the request: the memory of its contents, and that of its body. */
  get held(): number {
    return this.#bytes + (this.#call.header?.bodyMemory ?? 0);
  }

  /** Reserves only what exceeds the memory that is reserved already: for contents that replace those that were read before. */
  get again(): ContentRoom {
    return { reserve: bytes => this.reserve(bytes - this.#bytes) };
  }

  /** Reserves like `again`, but never fails: for the end of an answer of which the client already has the rest. */
  get end(): ContentRoom {
    return {
      reserve: async bytes => {
        try {
          await this.again.reserve(bytes);
        } catch {
          // The end is read without: it is one content, and else the answer would end with an error after all of its text.
        }
      },
    };
  }

  /** Throws or rejects with `overloaded` if the wait was too long, and with `invalid_request` if an account can never have so much memory. */
  reserve(bytes: number): Promise<void> | undefined {
    if (bytes <= largeContentBytes) return undefined;
    const { memory, header, outlivesCall, neverWaits } = this.#call;
    this.#isWatched ??= outlivesCall !== true && (header?.onOver?.(() => this.release()) ?? false);
    if (this.#isOver) throw abandoned();
    if (this.held + bytes > memory.ownerMax) throw tooLarge(this.#bytes + bytes, this.held - this.#bytes, memory);
    const isNext = memory.waiting === 0 || neverWaits === true;
    if (!isNext || memory.take(this.#owner, bytes) !== 'taken') {
      if (neverWaits === true) throw tooMany();
      return this.#wait(bytes);
    }
    this.#bytes += bytes;
    return undefined;
  }

  /** Releases the memory, unless that happens when the answer was sent. Call it when the answer was made. */
  made(): void {
    if (this.#isWatched !== true) this.release();
  }

  /** Releases the memory. May be called more than once; nothing can be reserved afterwards. */
  release(): void {
    this.#isOver = true;
    this.#leaving?.abort(abandoned());
    this.#call.memory.give(this.#owner, this.#bytes);
    this.#bytes = 0;
  }

  async #wait(bytes: number): Promise<void> {
    const { memory, leaving } = this.#call;
    this.#leaving ??= new AbortController();
    const released = this.#leaving.signal;
    const signal = leaving === undefined ? released : AbortSignal.any([released, leaving()]);
    const isTaken = await memory.wait(this.#owner, bytes, signal, this);
    if (!isTaken) throw tooMany();
    if (signal.aborted) {
      memory.give(this.#owner, bytes);
      throw signal.reason;
    }
    this.#bytes += bytes;
  }
}

/** Reads stored contents for a call with one reply, and holds their memory until the reply was sent. */
export async function readHeld<T>(call: ReadingCall, read: (room: HeldContent) => Promise<T>): Promise<T> {
  const room = new HeldContent(call);
  try {
    const reply = await read(room);
    room.made();
    return reply;
  } catch (thrown) {
    room.release();
    throw thrown;
  }
}

function tooLarge(contentBytes: number, bodyBytes: number, { ownerMax }: LargeMemory): GatewayError {
  const body = bodyBytes === 0 ? ',' : ` and has a body of ${bodyBytes} bytes, together`;
  return new GatewayError(
    'invalid_request',
    `The request reads stored content that takes ${contentBytes} bytes${body} more than the ${ownerMax} bytes that an account can read at once.`,
    {
      tip:
        bodyBytes === 0
          ? 'Read a response without `stream`, or ask the operator to raise `limits.account_body_memory`.'
          : 'Send less, or continue less, or ask the operator to raise `limits.account_body_memory`.',
    },
  );
}

/** Returns the error of a request for which there was no memory in time. */
function tooMany(): GatewayError {
  return overloaded('Too many large contents are being read: try again.');
}

/** Returns the error of a request that nobody waits for any more. */
function abandoned(): GatewayError {
  return overloaded('The request has ended before its content was read.');
}
