import { expect, test } from 'vitest';
import { endGateway, startGateway } from '../gateway.ts';
import { chatItem, createBatch, endedBatch, getBatch } from './batch-caller.ts';
import { killBatchOften } from './batch-kills.ts';

test('a batch that is killed again and again gives every item one result and one charge', async () => {
  const line = (item: number): string => (item % 10 === 0 ? 'status=400' : `delay_ms=${5 + (item % 7)} tokens=5`);
  await killBatchOften({ items: 400, kills: 5, line });
}, 60_000);

test('a batch that is stopped in the middle goes on where it was', async () => {
  const config = 'shutdown_grace: 100ms\n';
  let gateway = await startGateway({ config });
  const { home } = gateway;
  const items = Array.from({ length: 30 }, (_, at) => chatItem(`i${at}`, 'delay_ms=150 tokens=3'));
  const made = await createBatch(gateway, items);
  await expect.poll(async () => (await getBatch(gateway, made.id)).request_counts.completed).toBeGreaterThan(7);
  expect((await gateway.stop()).code).toBe(0);
  gateway = await startGateway({ config, home });
  expect((await getBatch(gateway, made.id)).request_counts.completed).toBeGreaterThan(0);
  expect((await endedBatch(gateway, made.id)).request_counts).toEqual({ total: 30, completed: 30, failed: 0 });
  const { records } = await gateway.account.listActivity({ limit: 100 });
  expect(records).toHaveLength(30);
  await endGateway(gateway);
}, 60_000);
