/** Batches of one account may not delay those of another. */
import { expect, test } from 'vitest';
import { createAccount, endGateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type BatchBody, chatItem, createBatch, endedBatch, getBatch } from './batch-caller.ts';

/** Returns items that each take the given time. */
const itemsOf = (count: number, delayMs: number): object[] =>
  Array.from({ length: count }, (_, at) => chatItem(`i${at}`, `delay_ms=${delayMs} tokens=3`));

test('an account whose batches fill all places does not keep another from running its first', async () => {
  const gateway = await startGateway();
  // Its batches stay open, because each item waits for the next minute.
  const slow = { ...gateway, apiKey: (await makeKey(gateway, { minuteLimit: 1n })).key };
  const other = { ...gateway, apiKey: await createAccount(gateway, '1') };
  const filling: BatchBody[] = [];
  // One after the other: an account may upload only a few files at once.
  while (filling.length < 33) filling.push(await createBatch(slow, itemsOf(3, 0)));
  const isRunning = async (id: string): Promise<boolean> => (await getBatch(slow, id)).status === 'in_progress';
  await expect
    .poll(async () => (await Promise.all(filling.map(({ id }) => isRunning(id)))).filter(Boolean).length)
    .toBeGreaterThanOrEqual(32);
  const { request_counts: counts } = await endedBatch(other, (await createBatch(other, itemsOf(2, 0))).id);
  expect(counts).toEqual({ total: 2, completed: 2, failed: 0 });
  await endGateway(gateway);
});

test('an account with many open batches gets as many turns as one with a single batch', async () => {
  const gateway = await startGateway({ config: 'batches: { concurrency: 1 }\n' });
  const other = { ...gateway, apiKey: await createAccount(gateway, '1') };
  const many = await Promise.all(Array.from({ length: 10 }, () => createBatch(gateway, itemsOf(10, 100))));
  const countDone = async (): Promise<number> => {
    const batches = await Promise.all(many.map(({ id }) => getBatch(gateway, id)));
    return batches.reduce((sum, { request_counts: { completed } }) => sum + completed, 0);
  };
  const single = await createBatch(other, itemsOf(6, 100));
  const before = await countDone();
  await endedBatch(other, single.id);
  // One turn each for six items, and some while the other's batch is opened and its end is noticed; with a turn for each batch it would be 60.
  expect((await countDone()) - before).toBeLessThan(30);
  await endGateway(gateway);
});
