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

/** Kills a gateway under mixed load `rounds` times, and compares the ledger with the costs that clients received. Returns how long the starts took, in ms, shortest first. */
export async function killGatewayOften(rounds: number): Promise<number[]> {
  const funds = 1_000n * 1_000_000_000n;
  let gateway = await startGateway({ config, balance: '1000' });
  const { home } = gateway;
  const acknowledged: Acknowledged = new Map();
  const readyMs: number[] = [];
  try {
    for (let round = 0; round < rounds; round += 1) {
      const clients = Array.from({ length: 8 }, (_, index) => converse(gateway, acknowledged, round * 8 + index));
      await sleep(120 + ((round * 53) % 260));
      // A busy machine needs more time for the first answers.
      const enough = (round + 1) * 6;
      for (const deadline = performance.now() + 10_000; acknowledged.size < enough && performance.now() < deadline;) {
        await sleep(1);
      }
      await gateway.kill();
      await Promise.all(clients);
      gateway = await startGateway({ config, home });
      readyMs.push(gateway.readyMs);
      expect(await heldBy(gateway), `held after kill ${round}`).toBe(0n);
    }
    expect(acknowledged.size).toBeGreaterThan(rounds * 5);
    const records = await allRecords(gateway);
    const charged = new Map(records.map(({ requestId, costNanoUsd }) => [requestId, costNanoUsd]));
    expect(charged.size, 'a request has one record').toBe(records.length);
    const lost = [...acknowledged].filter(([id, cost]) => charged.get(id) !== cost);
    expect(lost).toEqual([]);
    const total = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
    expect(funds - (await readBalance(gateway))).toBe(total);
    // The holds of killed requests were voided without a charge and are listed for the operator.
    const { holds } = await gateway.admin.listVoidedHolds({ limit: 1_000 });
    expect(holds.length).toBeGreaterThan(0);
    expect(holds.every(({ reason }) => reason === 'restarted')).toBe(true);
    const verified = await gateway.cli(['ledger', 'verify']);
    expect(verified.code, `${verified.stdout}${verified.stderr}`).toBe(0);
    await endGateway(gateway);
    return readyMs.toSorted((a, b) => a - b);
  } finally {
    await gateway.kill();
    rmSync(home.folder, { recursive: true, force: true });
  }
}
