/** Batches whose disk fails while they run: they end once, without a restart, and each item has one result and one charge. */
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import {
  allRecords,
  type BatchBody,
  call,
  createBatch,
  endedBatch,
  getBatch,
  readLines,
  type ResultBody,
} from '../e2e/batch-caller.ts';
import { endGateway, expectVerified, type Gateway, makeHome, readBalance, startGateway } from '../gateway.ts';
import { canMakeFaults, makeStorageFaults, type StorageFault } from './storage-faults.ts';

/** How long the disk fails, in ms, after the first call has failed: longer than a few quick retries. */
const faultMs = 3_000;
const endMs = 90_000;
const itemsOfBatch = 24;

type Messages = readonly { readonly role: string; readonly content: string }[];
const makeMessages = (line: string): Messages => [{ role: 'user', content: `x\n!sim ${line}` }];
/** Returns the body of an item, by the path of the batch. */
const bodies: Readonly<Record<string, (line: string) => object>> = {
  '/v1/chat/completions': line => ({ model: 'sim/large', messages: makeMessages(line) }),
  '/v1/responses': line => ({ model: 'sim/large', input: `x\n!sim ${line}` }),
  '/v1/embeddings': line => ({ model: 'sim/embed', input: `x\n!sim ${line}` }),
};
/** An item takes half a second, and the fifth is refused by the provider. */
const chooseLine = (item: number): string => (item % 5 === 4 ? 'status=400' : 'delay_ms=400 tokens=20');
const makeItems = (path: string, count = itemsOfBatch, line = chooseLine): object[] =>
  Array.from({ length: count }, (_, item) => ({
    custom_id: `item-${item}`,
    method: 'POST',
    url: path,
    body: bodies[path]?.(line(item)),
  }));

/** A batch of Messages as its client sees it, with the results once it has ended. */
interface MessageBatch {
  readonly id: string;
  readonly processing_status: string;
  readonly results_url: string | null;
  readonly request_counts: Record<string, number>;
}
interface MessageResult {
  readonly custom_id: string;
  readonly result: { readonly type: string; readonly message?: { readonly usage: { readonly cost: number } } };
}
const messagesPath = '/v1/messages/batches';

async function createMessages(gateway: Gateway): Promise<string> {
  const requests = Array.from({ length: itemsOfBatch }, (_, item) => ({
    custom_id: `item-${item}`,
    params: { model: 'sim/large', max_tokens: 100, messages: makeMessages(chooseLine(item)) },
  }));
  return (await call<MessageBatch>(gateway, messagesPath, { method: 'POST', body: { requests } })).body.id;
}

async function endedMessages(gateway: Gateway, id: string): Promise<MessageBatch> {
  const read = async () => (await call<MessageBatch>(gateway, `${messagesPath}/${id}`)).body;
  await expect.poll(async () => (await read()).processing_status, { timeout: endMs }).toBe('ended');
  return read();
}

async function readResults({ apiKey }: Gateway, url: string | null): Promise<MessageResult[]> {
  const response = await fetch(url ?? '', { headers: { authorization: `Bearer ${apiKey}` } });
  const lines = (await response.text()).trim().split('\n');
  return lines.map(line => JSON.parse(line) as MessageResult);
}

const names = Array.from({ length: itemsOfBatch }, (_, item) => `item-${item}`);
const sort = (ids: readonly string[]): string[] =>
  ids.toSorted((one, other) => Number(one.slice(5)) - Number(other.slice(5)));
const failedNames = names.filter((_, item) => item % 5 === 4);
const answeredNames = names.filter((_, item) => item % 5 !== 4);

/** Returns the costs of the charges of a batch, in dollars, in ascending order. */
async function readCharges(gateway: Gateway, batchId: string): Promise<number[]> {
  const records = (await allRecords(gateway)).filter(record => record.batchId === batchId && record.costNanoUsd > 0n);
  return records.map(({ costNanoUsd }) => Number(costNanoUsd) / 1e9).toSorted((one, other) => one - other);
}

/** Expects every item of an ended batch to have one result, and every answer one charge. Returns the sum of the charges in dollars. */
async function expectWhole(gateway: Gateway, batch: BatchBody): Promise<number> {
  const { id, status, request_counts: counts, usage } = batch;
  expect([status, counts]).toEqual([
    'completed',
    { total: itemsOfBatch, completed: answeredNames.length, failed: failedNames.length },
  ]);
  const results = await readLines<ResultBody>(gateway, batch.output_file_id);
  const errors = await readLines<ResultBody>(gateway, batch.error_file_id);
  expect(sort(results.map(({ custom_id }) => custom_id))).toEqual(answeredNames);
  expect(sort(errors.map(({ custom_id }) => custom_id))).toEqual(failedNames);
  const charges = await readCharges(gateway, id);
  const shown = results.map(({ response }) => response?.body.usage?.cost ?? NaN);
  expect(charges).toEqual(shown.toSorted((one, other) => one - other));
  const sum = charges.reduce((total, cost) => total + cost, 0);
  expect(usage.cost).toBeCloseTo(sum, 9);
  return sum;
}

/** The same for a batch of Messages. */
async function expectWholeMessages(gateway: Gateway, batch: MessageBatch): Promise<number> {
  const { id, request_counts: counts, results_url: url } = batch;
  expect(counts).toMatchObject({ processing: 0, succeeded: answeredNames.length, errored: failedNames.length });
  const results = await readResults(gateway, url);
  expect(sort(results.map(({ custom_id }) => custom_id))).toEqual(names);
  const charges = await readCharges(gateway, id);
  const shown = results.flatMap(({ result }) => result.message?.usage.cost ?? []);
  expect(charges).toEqual(shown.toSorted((one, other) => one - other));
  return charges.reduce((total, cost) => total + cost, 0);
}

const faultsOfDisk: readonly (readonly [what: string, fault: StorageFault])[] = [
  ['the ledger can’t be written', { calls: ['writes', 'truncates'], error: 'EROFS', path: 'ledger.sqlite-wal' }],
  ['the content store can’t be written', { calls: ['writes', 'truncates'], error: 'EROFS', path: 'content.db-wal' }],
  ['results can’t be stored', { calls: ['writes'], error: 'ENOSPC', path: '.journal' }],
  [
    'some results are only written by half',
    { calls: ['writes'], error: 'short', path: '.journal', skip: 3, times: 12 },
  ],
  ['result files can’t be written', { calls: ['writes'], error: 'EIO', path: '.draft' }],
  ['the disk is full', { calls: ['writes', 'truncates'], error: 'ENOSPC' }],
];

describe.runIf(canMakeFaults)('batches on a disk that fails', () => {
  const faults = canMakeFaults ? makeStorageFaults() : undefined;
  const home = makeHome();
  let gateway: Gateway;
  const start = async (): Promise<Gateway> =>
    (gateway = await startGateway({
      home,
      config: 'simulator: { tokens_per_second: 0 }\nledger: { settle_timeout: 500ms }\n',
      balance: '100',
      environment: faults?.environment ?? {},
    }));
  afterEach(() => faults?.clear());
  afterAll(async () => {
    await endGateway(gateway);
    faults?.remove();
  });

  test.each(faultsOfDisk)(
    'while %s: after that each ends once, without a restart, nothing is lost and nothing charged twice',
    async (_, fault) => {
      gateway ??= await start();
      const before = await readBalance(gateway);
      const paths = Object.keys(bodies);
      const made = await Promise.all(
        paths.map(async path => (await createBatch(gateway, makeItems(path), { endpoint: path })).id),
      );
      const messages = await createMessages(gateway);
      const [first = ''] = made;
      await expect.poll(async () => (await getBatch(gateway, first)).request_counts.completed).toBeGreaterThan(0);
      faults?.arm(fault);
      await expect.poll(() => faults?.countFired(), { timeout: 60_000 }).toBeGreaterThan(0);
      await wait(faultMs);
      // If only the content store fails, items go on, but their batch can't end.
      const stopped = new RegExp(`"batchId":"${first}".*a batch stopped because of an internal failure`);
      if (fault.path === 'content.db-wal')
        await expect.poll(() => stopped.test(gateway.printed()), { timeout: endMs }).toBe(true);
      faults?.clear();
      let sum = 0;
      const ended = [];
      for (const id of made) {
        const batch = await endedBatch(gateway, id, endMs);
        sum += await expectWhole(gateway, batch);
        ended.push(batch);
      }
      const endedOne = await endedMessages(gateway, messages);
      sum += await expectWholeMessages(gateway, endedOne);
      expect(Number(before - (await readBalance(gateway))) / 1e9).toBeCloseTo(sum, 8);
      const read = await Promise.all(made.map(id => getBatch(gateway, id)));
      expect([...read, await endedMessages(gateway, messages)]).toEqual([...ended, endedOne]);
      await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(200);
    },
  );

  test('a cancellation that could not be stored is an error, and once it is repeated with success, it survives a kill', async () => {
    gateway ??= await start();
    const { id } = await createBatch(gateway, makeItems('/v1/chat/completions', 400));
    await expect.poll(async () => (await getBatch(gateway, id)).request_counts.completed).toBeGreaterThan(0);
    const cancel = () => call<BatchBody>(gateway, `/v1/batches/${id}/cancel`, { method: 'POST', body: {} });
    faults?.arm({ calls: ['writes', 'truncates'], error: 'EROFS', path: 'content.db-wal' });
    expect((await cancel()).status).toBe(503);
    faults?.clear();
    await expect.poll(async () => (await cancel()).status).toBe(200);
    await gateway.kill();
    await start();
    const ended = await endedBatch(gateway, id, endMs);
    expect(ended.status).toBe('cancelled');
    await expectVerified(gateway.home);
  });
});
