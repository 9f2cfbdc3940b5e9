import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { BatchSchema } from '../../src/gen/tollgate/v1/batch_pb.ts';
import { clockAhead } from '../fake-clock.ts';
import { readBalance, endGateway, type Home, queryDatabase, startGateway } from '../gateway.ts';
import { call, chatItem, createBatch, endedBatch, getBatch, readLines } from './batch-caller.ts';
import { killRunningBatch } from './batch-kills.ts';

test('a batch whose gateway is killed several times has one result and one charge for every item', async () => {
  const line = (item: number): string => (item % 10 === 0 ? 'status=400' : `delay_ms=${5 + (item % 7)} tokens=5`);
  await killRunningBatch({ items: 200, kills: 3, line });
});

test('a batch continues after a restart, items that did not run in time expire free of charge, and after 30 days the batch is gone', async () => {
  const clock = clockAhead(0);
  const config = 'shutdown_grace: 100ms\nbatches: { concurrency: 2 }\n';
  const { environment } = clock;
  let gateway = await startGateway({ config, environment });
  const { home } = gateway;
  const items = Array.from({ length: 10 }, (_, at) => chatItem(`i${at}`, 'delay_ms=150 tokens=3'));
  const first = await createBatch(gateway, items);
  await expect.poll(async () => (await getBatch(gateway, first.id)).request_counts.completed).toBeGreaterThan(2);
  expect((await gateway.stop()).code).toBe(0);
  gateway = await startGateway({ config, home, environment });
  const whole = await endedBatch(gateway, first.id);
  expect(whole.request_counts).toEqual({ total: 10, completed: 10, failed: 0 });
  expect((await gateway.account.listActivity({ limit: 100 })).records).toHaveLength(10);

  const second = await createBatch(
    gateway,
    Array.from({ length: 6 }, (_, at) => chatItem(`i${at}`, at < 2 ? 'say=x' : 'delay_ms=20000 say=x')),
  );
  expect(Number(second['expires_at']) - Number(second['created_at'])).toBe(86_400);
  await expect.poll(async () => (await getBatch(gateway, second.id)).request_counts.completed).toBe(2);
  await gateway.kill();
  await age(home, second.id);
  gateway = await startGateway({ config, home, environment });
  const before = await readBalance(gateway);
  const batch = await endedBatch(gateway, second.id);
  expect([batch.status, batch.request_counts]).toEqual(['expired', { total: 6, completed: 2, failed: 0 }]);
  expect(await readLines(gateway, batch.output_file_id)).toHaveLength(2);
  const errors = await readLines(gateway, batch.error_file_id);
  expect(errors.map(({ custom_id, error }) => [custom_id, error?.code])).toEqual(
    ['i2', 'i3', 'i4', 'i5'].map(id => [id, 'batch_expired']),
  );
  expect(await readBalance(gateway)).toBe(before);

  const output = whole.output_file_id ?? '';
  const paths = [`/v1/batches/${first.id}`, `/v1/files/${output}`, `/v1/files/${output}/content`];
  const statuses = async (): Promise<number[]> => Promise.all(paths.map(async path => readStatus(path)));
  const headers = { authorization: `Bearer ${gateway.apiKey}` };
  const readStatus = async (path: string): Promise<number> => {
    const response = await fetch(gateway.url + path, { headers });
    await response.arrayBuffer();
    return response.status;
  };
  const dayMs = 86_400_000;
  for (const [days, status] of [
    [29, 200],
    [31, 404],
  ] as const) {
    await gateway.stop();
    clock.set(new Date(Date.now() + days * dayMs).toISOString());
    gateway = await startGateway({ config, home, environment });
    expect([days, ...(await statuses())]).toEqual([days, status, status, status]);
  }
  expect((await call<{ data: unknown[] }>(gateway, '/v1/files')).body.data).toEqual([]);
  expect((await call<{ data: unknown[] }>(gateway, '/v1/batches')).body.data).toEqual([]);
  await endGateway(gateway);
  clock.remove();
});

/** Moves the expiry of a stored batch one day earlier, as if a day had passed. */
async function age(home: Home, id: string): Promise<void> {
  const older = (content: Uint8Array): Uint8Array => {
    const batch = fromBinary(BatchSchema, content);
    if (batch.times !== undefined) batch.times.expiresMs -= 86_400_000n;
    return toBinary(BatchSchema, batch);
  };
  const body = (parameter: string): string => `document = (SELECT row FROM document WHERE id = ${parameter})`;
  const rows = await queryDatabase(home, `SELECT content FROM document_body WHERE ${body('$1::text')}`, [id]);
  if (rows !== undefined) {
    const content = rows[0]?.['content'];
    if (!(content instanceof Uint8Array)) throw new Error('no batch');
    const update = `UPDATE document_body SET content = $2::bytea WHERE ${body('$1::text')}`;
    await queryDatabase(home, update, [id, older(content)]);
    return;
  }
  const db = new Database(join(home.dataDir, 'content.db'));
  const stored = db.prepare<[string], { content: Uint8Array }>(`SELECT content FROM body WHERE ${body('?')}`).get(id);
  if (stored === undefined) throw new Error('no batch');
  const content = older(stored.content);
  db.prepare(`UPDATE body SET content = ?, crc = ? WHERE ${body('?')}`).run(content, crc32(content), id);
  db.close();
}

test('no item of a batch starts while other requests wait for the same provider', async () => {
  const requested: string[] = [];
  const answers: (() => void)[] = [];
  const upstream = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      requested.push(text.includes('from a batch') ? 'batch' : 'interactive');
      answers.push(() => {
        const choice = { index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' };
        const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ id: 'x', object: 'chat.completion', model: 'm', choices: [choice], usage }));
      });
    });
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const address = upstream.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const gateway = await startGateway({
    config: `
providers:
  one: { protocol: chat, base_url: "http://127.0.0.1:${port}/v1", api_key: x, concurrency: 1 }
models:
  - { id: acme/m, pricing: { input: 1, output: 1 }, routes: [{ provider: one, model: m }] }
`,
  });
  try {
    const messages = [{ role: 'user', content: 'hello' }];
    const body = { model: 'acme/m', messages };
    const waiting = Array.from({ length: 3 }, () => call(gateway, '/v1/chat/completions', { method: 'POST', body }));
    await expect.poll(() => answers.length).toBe(1);
    const items = Array.from({ length: 3 }, (_, at) => ({
      ...chatItem(`i${at}`, 'x'),
      body: { model: 'acme/m', messages: [{ role: 'user', content: 'from a batch' }] },
    }));
    const made = await createBatch(gateway, items);
    for (let at = 0; at < 6; at += 1) {
      await expect.poll(() => answers.length).toBeGreaterThan(at);
      // Enough time for a second request to reach the provider, if the gateway sent one.
      await sleep(150);
      expect(requested).toHaveLength(at + 1);
      answers[at]?.();
    }
    expect(requested).toEqual([...Array<string>(3).fill('interactive'), ...Array<string>(3).fill('batch')]);
    await Promise.all(waiting);
    expect((await endedBatch(gateway, made.id)).request_counts.completed).toBe(3);
  } finally {
    await endGateway(gateway);
    upstream.closeAllConnections();
    upstream.close();
  }
});
