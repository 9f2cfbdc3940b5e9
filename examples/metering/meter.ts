import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import type { Journal, Unfinished } from './journal.ts';

/** The client of the gateway's AccountingService. */
export type Accounting = Client<typeof AccountingService>;

/** Returns a client for the internal listener at the address `gateway` ("http://127.0.0.1:9090"), with the operator token. */
export function createAccounting(gateway: string, operatorToken: string): Accounting {
  const withToken: Interceptor = next => request => {
    request.header.set('authorization', `Bearer ${operatorToken}`);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: gateway,
    httpVersion: '1.1',
    defaultTimeoutMs: 10_000,
    interceptors: [withToken],
  });
  return createClient(AccountingService, transport);
}

/** Makes sure that the cost of the work so far (in nano-dollars) is held before the work continues. Throws if the account can't pay it. */
export type Cover = (costNanoUsd: bigint) => Promise<void>;

/** How a piece of work ended. `unpaid`: its hold had expired before it could be charged. */
export interface Ended {
  readonly id: bigint;
  readonly target: string;
  readonly state: 'settled' | 'voided' | 'unpaid';
  /** The amount that the account paid, and the part of the cost that exceeded its funds or limits; both 0 if nothing was charged. */
  readonly costNanoUsd: bigint;
  readonly writtenOffNanoUsd: bigint;
}

/** Who pays for the work, and how it is held. */
export interface Order {
  /** The id of the API key that pays. */
  readonly apiKeyId: bigint;
  /** The name of the work in the account's activity. */
  readonly model: string;
  /** The first hold, and the smallest extension. Work that costs no more needs only two calls to the gateway. */
  readonly sliceNanoUsd: bigint;
}

/** A hold that is neither settled nor voided is released after this time. It is longer than any pause between two extensions, each of which starts it again. */
const expiresInMs = 900_000n;
const triesMax = 4;

/** The dependencies of a `Meter`. */
export interface MeterOptions {
  readonly accounting: Accounting;
  readonly journal: Journal;
  /** Delivers paid work and discards unpaid work. After a crash it may be called a second time for the same work. */
  readonly deliver: (ended: Ended) => void;
}

/** Charges work to accounts of a gateway. Work is done only while its cost is held; it is charged once, and its hold always ends. */
export class Meter {
  readonly #options: MeterOptions;

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  /**
   * Does work that an account pays for. `work` calls `cover` before each part, and returns the total cost. If `work` throws,
   * the hold is released and the error is rethrown. If the gateway is down, so that the work can't be charged or
   * released now, `recover` does it later.
   */
  async run(target: string, order: Order, work: (cover: Cover) => Promise<bigint>): Promise<void> {
    const { accounting, journal } = this.#options;
    const { apiKeyId, model, sliceNanoUsd } = order;
    const id = journal.begin(target);
    const began = performance.now();
    const admit = { id, apiKeyId, model, amountNanoUsd: sliceNanoUsd, expiresInMs };
    let held = await insist(() => accounting.admit(admit)).then(
      ({ heldNanoUsd }) => heldNanoUsd,
      (error: unknown) => {
        // The gateway has refused, so nothing is held. Don't void: after `conflict`, the id belongs to other work.
        if (readDetail(error) !== undefined) this.#end({ id, target, state: 'voided', ...nothing });
        throw error;
      },
    );
    const cover: Cover = async cost => {
      if (cost <= held) return;
      const amountNanoUsd = cost - held > sliceNanoUsd ? cost - held : sliceNanoUsd;
      held = (await insist(() => accounting.extend({ id, amountNanoUsd, expiresInMs }))).heldNanoUsd;
    };
    const costNanoUsd = await work(cover).catch(async (error: unknown) => {
      // The caller must get the error that stopped the work, even if releasing fails too.
      await this.#void({ id, target }).catch(() => undefined);
      throw error;
    });
    const latencyMs = Math.round(performance.now() - began);
    journal.done(id, costNanoUsd, latencyMs);
    await this.#settle({ id, target, done: { costNanoUsd, latencyMs } });
  }

  /** Call this after a crash: charges the work that was done and releases the rest. Calls that were made before the crash change nothing when they are repeated. */
  async recover(): Promise<void> {
    for (const work of this.#options.journal.unfinished()) {
      await (work.done === undefined ? this.#void(work) : this.#settle(work));
    }
  }

  async #settle({ id, target, done }: Unfinished): Promise<void> {
    const { costNanoUsd = 0n, latencyMs = 0 } = done ?? {};
    const settle = { id, costNanoUsd, latencyMs: BigInt(latencyMs) };
    const charged = await unlessNotFound(insist(() => this.#options.accounting.settle(settle)));
    if (charged === undefined) this.#end({ id, target, state: 'unpaid', ...nothing });
    else this.#end({ id, target, state: 'settled', ...charged });
  }

  async #void({ id, target }: Unfinished): Promise<void> {
    // Not found: the work was never admitted, or its hold has expired. Either way nothing is held.
    await unlessNotFound(insist(() => this.#options.accounting.void({ id })));
    this.#end({ id, target, state: 'voided', ...nothing });
  }

  /** Delivers before it records the end: after a crash between the two, the work is delivered again, never lost. */
  #end(ended: Ended): void {
    this.#options.deliver(ended);
    this.#options.journal.end(ended.id, ended.state);
  }
}

const nothing = { costNanoUsd: 0n, writtenOffNanoUsd: 0n };

/** Returns the gateway's detail of an error; undefined if there is none, so that it is unknown whether the call took effect. */
export function readDetail(error: unknown): ErrorDetail | undefined {
  return ConnectError.from(error).findDetails(ErrorDetailSchema)[0];
}

/** Makes a call, up to `triesMax` times while the gateway does not answer or is overloaded. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await call();
    } catch (error) {
      const code = readDetail(error)?.code;
      if (tries === triesMax || (code !== undefined && code !== 'overloaded')) throw error;
      await sleep(100 * 2 ** tries);
    }
  }
}

async function unlessNotFound<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (readDetail(error)?.code === 'not_found') return undefined;
    throw error;
  }
}
