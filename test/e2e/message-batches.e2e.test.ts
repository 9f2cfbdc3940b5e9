/** Batches in Anthropic's interface, and what both batch interfaces share: the RPC services, the command line, prices in the configuration. */
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { afterAll, describe, expect, test } from 'vitest';
import { BatchService, BatchState, FileService } from '../../src/gen/tollgate/v1/batch_pb.ts';
import { Endpoint } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { allRecords, call, chatItem, createBatch, endedBatch, jsonLines, readLines } from './batch-caller.ts';

const gateway = await startGateway({
  config: `
simulator: { tokens_per_second: 0 }
limits: { list_entries: 100, body_values: 1000 }
providers:
  one: { protocol: chat, base_url: "http://127.0.0.1:1/v1", api_key: x }
models:
  - { id: acme/quarter, pricing: { input: 1, output: 1, batch: 0.25 }, routes: [{ provider: one, model: x }] }
`,
});
afterAll(() => endGateway(gateway));

interface MessageBatch {
  readonly id: string;
  readonly processing_status: string;
  readonly request_counts: Record<string, number>;
  readonly results_url: string | null;
  readonly [name: string]: unknown;
}

interface Result {
  readonly custom_id: string;
  readonly result: {
    readonly type: string;
    readonly message?: { readonly id: string; readonly content: unknown; readonly usage: { readonly cost: number } };
    readonly error?: { readonly type: string; readonly error: { readonly type: string; readonly code: string } };
  };
}

const path = '/v1/messages/batches';
const headers = { 'anthropic-version': '2023-06-01' };

function item(id: unknown, line: string, more: object = {}): object {
  const messages = [{ role: 'user', content: `x\n!sim ${line}` }];
  return { custom_id: id, params: { model: 'sim/large', max_tokens: 100, messages, ...more } };
}

const create = (requests: unknown) =>
  call<MessageBatch>(gateway, path, { method: 'POST', body: { requests }, headers });

async function ended(id: string): Promise<MessageBatch> {
  let last: MessageBatch | undefined;
  await expect
    .poll(
      async () => (last = (await call<MessageBatch>(gateway, `${path}/${id}`, { headers })).body).processing_status,
      {
        timeout: 30_000,
      },
    )
    .toBe('ended');
  if (last === undefined) throw new Error('no batch');
  return last;
}

async function results(url: string | null): Promise<Result[]> {
  const response = await fetch(url ?? '', { headers: { 'x-api-key': gateway.apiKey, ...headers } });
  expect(response.status).toBe(200);
  return (await response.text())
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Result);
}

describe('a batch of Messages', () => {
  test('is in progress, then ended, with all results in one file and at the batch price', async () => {
    const made = await create([
      item('a', 'say=one'),
      item('b', 'status=400'),
      item('c', 'say=x', { model: 'no/such' }),
    ]);
    expect(made.body).toMatchObject({
      id: expect.stringMatching(/^msgbatch_/),
      type: 'message_batch',
      processing_status: 'in_progress',
      request_counts: { processing: 3, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
      ended_at: null,
      results_url: null,
    });
    const batch = await ended(made.body.id);
    expect(batch.request_counts).toEqual({ processing: 0, succeeded: 1, errored: 2, canceled: 0, expired: 0 });
    expect(batch.results_url).toBe(`${gateway.url}${path}/${batch.id}/results`);
    const [one, two, three] = await results(batch.results_url);
    expect([one?.custom_id, one?.result.type]).toEqual(['a', 'succeeded']);
    expect(one?.result.message).toMatchObject({ type: 'message', content: [{ type: 'text', text: 'one' }] });
    expect([two?.result.type, two?.result.error?.type]).toEqual(['errored', 'error']);
    expect(three?.result.error?.error).toMatchObject({ type: 'invalid_request_error', code: 'model_not_found' });
    const [record] = (await allRecords(gateway)).filter(({ batchId }) => batchId === batch.id);
    const whole = await readRecord(gateway, record?.requestId ?? '');
    expect(new Set(whole.buckets.map(each => each.multiplierPermille))).toEqual(new Set([500]));
    expect(one?.result.message?.usage.cost).toBe(Number(whole.costNanoUsd) / 1e9);
    const files = await call<{ data: object[] }>(gateway, '/v1/files');
    expect(files.body.data, 'a batch of Messages has no files of its account').toEqual([]);
  });

  test.each([
    ['a name of an item twice', [item('a', 'say=x'), item('a', 'say=x')], 'requests.1.custom_id'],
    ['no name', [item(undefined, 'say=x')], 'requests.0.custom_id'],
    ['a name with spaces', [item('a b', 'say=x')], 'requests.0.custom_id'],
    ['no params', [item('a', 'say=x'), { custom_id: 'b' }], 'requests.1.params'],
    ['nothing', [], 'requests'],
  ])('with %s is refused with 422, and the error names the field', async (_, requests, param) => {
    const { status, body } = await create(requests);
    expect([status, body['error']]).toEqual([422, expect.objectContaining({ type: 'invalid_request_error', param })]);
  });

  test('may have more requests than other bodies may have entries, and can be cancelled, listed and deleted', async () => {
    const made = await create(Array.from({ length: 400 }, (_, at) => item(`i${at}`, 'delay_ms=100 say=x')));
    expect(made.status).toBe(200);
    const { id } = made.body;
    expect((await call(gateway, `${path}/${id}`, { method: 'DELETE', headers })).status).toBe(409);
    const cancelled = await call<MessageBatch>(gateway, `${path}/${id}/cancel`, { method: 'POST', headers });
    expect(cancelled.body.processing_status).toBe('canceling');
    const batch = await ended(id);
    const { succeeded = 0, canceled = 0 } = batch.request_counts;
    expect(succeeded + canceled).toBe(400);
    expect(canceled).toBeGreaterThan(300);
    expect((await results(batch.results_url)).filter(({ result }) => result.type === 'canceled')).toHaveLength(
      canceled,
    );
    const second = (await create([item('a', 'say=x')])).body.id;
    const list = async (query: string) =>
      (await call<{ data: MessageBatch[]; has_more: boolean }>(gateway, `${path}?${query}`, { headers })).body;
    expect(await list('limit=1')).toMatchObject({ data: [{ id: second }], has_more: true });
    expect((await list(`limit=1&after_id=${second}`)).data.map(each => each.id)).toEqual([id]);
    expect((await list(`limit=1&before_id=${id}`)).data.map(each => each.id)).toEqual([second]);
    expect((await call<{ data: object[] }>(gateway, '/v1/batches')).body.data).toEqual([]);
    expect((await call(gateway, `${path}/${id}`, { method: 'DELETE', headers })).body).toEqual({
      id,
      type: 'message_batch_deleted',
    });
    expect((await call(gateway, `${path}/${id}`, { headers })).status).toBe(404);
    await ended(second);
  });
});

test('the batch price is the factor in the configuration, and the list of models has it', async () => {
  const models = await call<{ data: { id: string; pricing: { batch?: number } }[] }>(gateway, '/v1/models');
  expect(models.body.data.find(({ id }) => id === 'acme/quarter')?.pricing.batch).toBe(0.25);
});

test('files and batches are available over RPC, too, and the command line lists a batch’s items', async () => {
  const transport = createConnectTransport({
    baseUrl: gateway.rpcUrl,
    httpVersion: '2',
    interceptors: [
      next => request => {
        request.header.set('authorization', `Bearer ${gateway.apiKey}`);
        return next(request);
      },
    ],
  });
  const files = createClient(FileService, transport);
  const batches = createClient(BatchService, transport);
  const { uploadId } = await files.createFile({});
  const text = Buffer.from(jsonLines([chatItem('a', 'say=one'), chatItem('b', 'say=two')]));
  await files.appendFile({ uploadId, content: text.subarray(0, 20) });
  await files.appendFile({ uploadId, content: text.subarray(20) });
  const { file } = await files.finishFile({ uploadId, filename: 'a.jsonl', purpose: 'batch' });
  expect(file?.bytes).toBe(BigInt(text.length));
  const requested = { inputFileId: file?.id ?? '', endpoint: Endpoint.CHAT_COMPLETIONS };
  const id = (await batches.createBatch(requested)).batch?.id ?? '';
  const rest = await endedBatch(gateway, id);
  const { batch } = await batches.getBatch({ batchId: id });
  expect([batch?.state, batch?.counts?.completed]).toEqual([BatchState.COMPLETED, 2]);
  let read = '';
  for await (const { content } of files.readFileContent({ fileId: batch?.outputFileId ?? '' })) {
    if (content.case === 'chunk') read += Buffer.from(content.value).toString();
  }
  expect(read.trim().split('\n')).toHaveLength(2);
  const listed = await gateway.cli(['requests', 'list', '--account', '1', '--batch', id, '--json']);
  expect(listed.json).toMatchObject({ data: [{ batch_id: id }, { batch_id: id }] });
  expect(await readLines(gateway, rest.output_file_id)).toHaveLength(2);
  await createBatch(gateway, [chatItem('z', 'say=x')]).then(made => endedBatch(gateway, made.id));
});
