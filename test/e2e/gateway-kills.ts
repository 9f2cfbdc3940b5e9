/** Kills a gateway under load (kill -9), many times: acknowledged charges stay, nothing is charged twice, nothing stays held. */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ActivityRecord } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';
import { ask, complete, stream } from './chat-client.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';
const dollars = (amount: number): bigint => BigInt(Math.round(amount * 1e9));
const steer = (line: string): Record<string, unknown> => ask(`Tolls\n!sim ${line}`);

/** The costs that clients received, in nano-dollars, by request id. */
type Acknowledged = Map<string, bigint>;

/** Sends requests as one client, alternately streamed and whole, until the gateway is gone. Adds every cost that it receives to `acknowledged`. */
async function converse(gateway: Gateway, acknowledged: Acknowledged, seed: number): Promise<void> {
  for (let turn = seed; ; turn += 1) {
    const line = turn % 5 === 0 ? `tokens=${200 + turn} tps=2000` : `tokens=${5 + (turn % 40)}`;
    try {
      if (turn % 2 === 0) {
        const { status, headers, body } = await complete(gateway, steer(line));
        if (status === 200) acknowledged.set(headers.get('x-request-id') ?? '', dollars(body.usage.cost));
      } else {
        const { done, headers, usage } = await stream(gateway, steer(line));
        if (done) acknowledged.set(headers.get('x-request-id') ?? '', dollars(usage?.cost ?? -1));
      }
    } catch {
      return;
    }
  }
}

async function allRecords({ account }: Gateway): Promise<ActivityRecord[]> {
  const records: ActivityRecord[] = [];
  for (;;) {
    const page = (await account.listActivity({ limit: 1_000, offset: records.length })).records;
    records.push(...page);
    if (page.length < 1_000) return records;
  }
}

/** How long a start after a kill took, in ms, and how much of it was waiting for a core that other programs used. */
export interface StartTime {
  readonly readyMs: number;
  readonly coreWaitMs: number;
}

/** A gateway that is killed again and again under mixed load. */
export class KilledGateway {
  #gateway: Gateway;
  readonly #acknowledged: Acknowledged = new Map();
  /** The start after each kill. */
  readonly starts: StartTime[] = [];

  private constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  static async start(): Promise<KilledGateway> {
    return new KilledGateway(await startGateway({ config, balance: '1000' }));
  }

  /** Kills the gateway while eight clients talk to it, and starts it again. Expects that nothing is held then. */
  async kill(): Promise<void> {
    const round = this.starts.length;
    const { home } = this.#gateway;
    const clients = Array.from({ length: 8 }, (_, index) =>
      converse(this.#gateway, this.#acknowledged, round * 8 + index),
    );
    await sleep(120 + ((round * 53) % 260));
    // A busy machine needs more time for the first answers.
    const enough = (round + 1) * 6;
    await expect
      .poll(() => this.#acknowledged.size, { timeout: 60_000, interval: 1, message: 'answers' })
      .toBeGreaterThanOrEqual(enough);
    await this.#gateway.kill();
    await Promise.all(clients);
    this.#gateway = await startGateway({ config, home });
    const { readyMs, coreWaitMs } = this.#gateway;
    this.starts.push({ readyMs, coreWaitMs });
    expect(await heldBy(this.#gateway), `held after kill ${round}`).toBe(0n);
  }

  /** Ends the gateway, and compares the ledger with the costs that clients received. Returns how many they are. */
  async end(): Promise<number> {
    const gateway = this.#gateway;
    expect(this.#acknowledged.size).toBeGreaterThan(this.starts.length * 5);
    const records = await allRecords(gateway);
    const charged = new Map(records.map(({ requestId, costNanoUsd }) => [requestId, costNanoUsd]));
    expect(charged.size, 'a request has one record').toBe(records.length);
    const lost = [...this.#acknowledged].filter(([id, cost]) => charged.get(id) !== cost);
    expect(lost).toEqual([]);
    const total = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
    expect(1_000n * 1_000_000_000n - (await readBalance(gateway))).toBe(total);
    // The holds of killed requests were voided without a charge and are listed for the operator.
    const { holds } = await gateway.admin.listVoidedHolds({ limit: 1_000 });
    expect(holds.length).toBeGreaterThan(0);
    expect(holds.every(({ reason }) => reason === 'restarted')).toBe(true);
    const verified = await gateway.cli(['ledger', 'verify']);
    expect(verified.code, `${verified.stdout}${verified.stderr}`).toBe(0);
    await endGateway(gateway);
    return this.#acknowledged.size;
  }

  /** Removes what is left of the gateway, also if a test failed. */
  async remove(): Promise<void> {
    await this.#gateway.kill();
    rmSync(this.#gateway.home.folder, { recursive: true, force: true });
  }
}
