/** A batch whose charges wait longer than the timeout. */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, inject, test } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { verifyDatabase } from '../../src/ledger/postgres/verify.ts';
import { allRecords, chatItem, createBatch, endedBatch } from '../e2e/batch-caller.ts';
import { heldBy, startGateway } from '../gateway.ts';
import { createDatabase } from './server.ts';

test('a batch item whose charge times out but is committed anyway is charged once', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  const gateway = await startGateway({
    config: 'ledger: { settle_timeout: 100ms }\n',
    environment: { TOLLGATE_DATABASE_URL: url },
  });
  const holder = await PostgresConnection.open({ url });
  const made = await createBatch(gateway, [chatItem('item', 'tokens=20 tps=20')]);
  await expect.poll(() => heldBy(gateway), { interval: 20 }).toBeGreaterThan(0n);
  // The charge waits for this lock, as if another gateway had it.
  await holder.script('BEGIN; SELECT 1 FROM account WHERE id = 1 FOR UPDATE');
  await sleep(2500);
  await holder.script('COMMIT');
  const batch = await endedBatch(gateway, made.id, 60_000);
  expect([batch.status, batch.request_counts.completed]).toEqual(['completed', 1]);
  const records = (await allRecords(gateway)).filter(({ batchId }) => batchId === made.id);
  expect(records.filter(({ costNanoUsd }) => costNanoUsd > 0n)).toHaveLength(1);
  await holder.end();
  await gateway.stop();
  expect(await verifyDatabase(url)).toEqual([]);
  rmSync(gateway.home.folder, { recursive: true, force: true });
}, 120_000);
