/** Kills a gateway that runs a batch (kill -9), many times: every item has one result and one charge. */
import { rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { readBalance, endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';
import { allRecords, chatItem, createBatch, endedBatch, getBatch, readLines } from './batch-caller.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';

/** A batch, and how often its gateway is killed. */
export interface BatchKills {
  readonly items: number;
  readonly kills: number;
  /** Returns the line that steers the built-in model for an item. */
  readonly line: (item: number) => string;
}

/** Returns the resident memory of the gateway's process, in bytes. */
async function readMemory({ pid }: Gateway): Promise<number> {
  const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

/** Runs a batch while its gateway is killed, and checks every item and every charge. Returns the most memory that the gateway used, in bytes. */
export async function killRunningBatch({ items, kills, line }: BatchKills): Promise<number> {
  let gateway = await startGateway({ config, balance: '1000' });
  const { home } = gateway;
  let memory = 0;
  try {
    const made = await createBatch(
      gateway,
      Array.from({ length: items }, (_, at) => chatItem(`item-${at}`, line(at))),
    );
    for (let kill = 0; kill < kills; kill += 1) {
      const wanted = Math.floor((items * (kill + 1)) / (kills + 1));
      for (;;) {
        const { request_counts: counts } = await getBatch(gateway, made.id);
        memory = Math.max(memory, await readMemory(gateway));
        if (counts.completed + counts.failed >= wanted) break;
        await sleep(15);
      }
      await gateway.kill();
      gateway = await startGateway({ config, home });
      expect(await heldBy(gateway), `held after kill ${kill}`).toBeLessThan(1_000_000_000n);
    }
    const batch = await endedBatch(gateway, made.id, 600_000);
    memory = Math.max(memory, await readMemory(gateway));
    expect([batch.status, batch.request_counts.total]).toEqual(['completed', items]);
    const results = await readLines(gateway, batch.output_file_id);
    const errors = await readLines(gateway, batch.error_file_id);
    const names = [...results, ...errors].map(({ custom_id }) => custom_id);
    expect([names.length, new Set(names).size], 'each item has one result').toEqual([items, items]);
    const records = (await allRecords(gateway)).filter(({ batchId }) => batchId === made.id);
    const charged = new Map(records.map(({ requestId, costNanoUsd }) => [requestId, Number(costNanoUsd) / 1e9]));
    const shown = results.map(({ response }) => [response?.request_id ?? '', response?.body.usage?.cost] as const);
    expect(records.filter(({ costNanoUsd }) => costNanoUsd > 0n)).toHaveLength(results.length);
    expect(shown.filter(([id, cost]) => charged.get(id) !== cost)).toEqual([]);
    const total = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
    expect(1_000n * 1_000_000_000n - (await readBalance(gateway))).toBe(total);
    expect(batch.usage.cost).toBeCloseTo(Number(total) / 1e9, 9);
    await endGateway(gateway);
    return memory;
  } finally {
    await gateway.kill();
    rmSync(home.folder, { recursive: true, force: true });
  }
}
