/** Batches in OpenAI's interface: results, the cost of each item, what has to wait, and what is refused. */
import { afterAll, describe, expect, test } from 'vitest';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { readBalance, createAccount, endGateway, heldBy, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import {
  allRecords,
  type BatchBody,
  call,
  chatItem,
  createBatch,
  endedBatch,
  getBatch,
  jsonLines,
  readLines,
  upload,
} from './batch-caller.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nlimits: { body_bytes: 1MiB }\n' });
afterAll(() => endGateway(gateway));

const dollars = (nanoUsd: bigint): number => Number(nanoUsd) / 1e9;

describe('files', () => {
  test('are stored, listed in pages in both orders, downloaded unchanged, and deleted; no other account sees them', async () => {
    const text = jsonLines([chatItem('é', 'say=ok')]);
    const { status, body } = await upload<Record<string, unknown> & { id: string; created_at: number }>(gateway, text);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^file-/),
      object: 'file',
      bytes: Buffer.byteLength(text),
      filename: 'requests.jsonl',
      purpose: 'batch',
      status: 'processed',
      expires_at: body.created_at + 30 * 86_400,
    });
    const second = (await upload(gateway, text)).body.id;
    const list = async (query: string): Promise<{ data: { id: string }[]; has_more: boolean }> =>
      (await call<{ data: { id: string }[]; has_more: boolean }>(gateway, `/v1/files?${query}`)).body;
    expect(await list('limit=1')).toMatchObject({ data: [{ id: second }], has_more: true, last_id: second });
    expect(await list(`limit=1&after=${second}`)).toMatchObject({ data: [{ id: body.id }], has_more: false });
    expect((await list('order=asc')).data.map(({ id }) => id)).toEqual([body.id, second]);
    expect(await list('purpose=batch_output')).toMatchObject({ data: [] });
    const read = await fetch(`${gateway.url}/v1/files/${body.id}/content`, {
      headers: { authorization: `Bearer ${gateway.apiKey}` },
    });
    expect(await read.text()).toBe(text);
    const stranger = { ...gateway, apiKey: await createAccount(gateway, '1') };
    expect((await call(stranger, `/v1/files/${body.id}`)).status).toBe(404);
    expect((await call(stranger, `/v1/files/${body.id}/content`)).status).toBe(404);
    expect((await call(gateway, `/v1/files/${second}`, { method: 'DELETE' })).body).toEqual({
      id: second,
      object: 'file',
      deleted: true,
    });
    expect((await call(gateway, `/v1/files/${second}`)).status).toBe(404);
  });

  test.each([
    { what: 'with another purpose', text: 'x', purpose: 'fine-tune', status: 422, param: 'purpose' },
    { what: 'without content', text: '', purpose: 'batch', status: 422, param: 'file' },
  ])('$what are refused', async ({ text, purpose, status, param }) => {
    const refused = await upload<{ error: { param: string } }>(gateway, text, purpose);
    expect([refused.status, refused.body.error.param]).toEqual([status, param]);
  });

  test('over 200 MB are refused with 413 before they are read', async () => {
    const response = await fetch(`${gateway.url}/v1/files`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.apiKey}`,
        'content-type': 'multipart/form-data; boundary=x',
      },
      body: new Blob([new Uint8Array(201_000_000)]),
    });
    expect(response.status).toBe(413);
  });
});

describe('a batch', () => {
  test('answers every item, charges each separately, and reports their total usage', async () => {
    const before = await readBalance(gateway);
    const items = [
      chatItem('a', 'say=one'),
      chatItem('b', 'status=400'),
      chatItem('c', 'tokens=20'),
      chatItem('d', 'say=x', { model: 'no/such' }),
      chatItem('e', 'say=x', { stream: true }),
    ];
    const made = await createBatch(gateway, items, { metadata: { run: '7' } });
    expect(made).toMatchObject({
      object: 'batch',
      status: 'validating',
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      output_file_id: null,
      error_file_id: null,
      errors: null,
      metadata: { run: '7' },
    });
    const batch = await endedBatch(gateway, made.id);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 2, failed: 3 } });
    expect(batch['completed_at']).toBeGreaterThanOrEqual(Number(made['created_at']));
    const results = await readLines(gateway, batch.output_file_id);
    expect(results.map(({ custom_id }) => custom_id)).toEqual(['a', 'c']);
    expect(results[0]?.response?.body.choices?.[0]?.message.content).toBe('one');
    const errors = await readLines(gateway, batch.error_file_id);
    expect(
      errors.map(({ custom_id, response }) => [custom_id, response?.status_code, response?.body.error?.code]),
    ).toEqual([
      ['b', 400, 'upstream_rejected'],
      ['d', 400, 'model_not_found'],
      ['e', 400, 'unsupported_parameter'],
    ]);
    let cost = 0n;
    for (const { response } of results) {
      const record = await readRecord(gateway, response?.request_id ?? '');
      expect(record.batchId).toBe(made.id);
      expect(response?.body.usage?.cost).toBe(dollars(record.costNanoUsd));
      expect(record.costNanoUsd).toBeGreaterThan(0n);
      cost += record.costNanoUsd;
    }
    expect(before - (await readBalance(gateway))).toBe(cost);
    expect(batch.usage.cost).toBe(dollars(cost));
    expect(batch.usage.output_tokens).toBeGreaterThan(20);
    expect(await heldBy(gateway)).toBe(0n);
    const listed = await call<{ data: { request_id: string; batch_id: string }[] }>(
      { ...gateway, apiKey: gateway.managementKey },
      `/v1/account/activity?batch_id=${made.id}`,
    );
    expect(listed.body.data).toHaveLength(2);
    expect(listed.body.data[0]).toMatchObject({ batch_id: made.id });
  });

  test('for Gemini has the model in the address of each item, and Google’s answers and errors', async () => {
    const before = await readBalance(gateway);
    const item = (custom_id: string, model: string, text: string, more: object = {}) => ({
      custom_id,
      method: 'POST',
      url: `/v1beta/models/${model}:generateContent`,
      body: { contents: [{ role: 'user', parts: [{ text }] }], ...more },
    });
    const items = [
      item('a', 'sim/small', 'Hi\n!sim say=one'),
      item('b', 'sim/large:flex', 'Hi\n!sim tokens=9'),
      item('c', 'no/such', 'Hi'),
      item('d', 'sim/small', 'Hi', { generation_config: { max_output_tokens: -1 } }),
    ];
    const made = await createBatch(gateway, items, { endpoint: '/v1beta/models/{model}:generateContent' });
    const batch = await endedBatch(gateway, made.id);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 4, completed: 2, failed: 2 } });
    const results = (await readLines(gateway, batch.output_file_id)) as unknown as {
      custom_id: string;
      response: { body: { candidates: { content: object }[]; usageMetadata: { cost: number } } };
    }[];
    expect(results.map(({ custom_id }) => custom_id)).toEqual(['a', 'b']);
    expect(results[0]?.response.body.candidates[0]?.content).toEqual({ role: 'model', parts: [{ text: 'one' }] });
    const cost = results.reduce((sum, { response }) => sum + response.body.usageMetadata.cost, 0);
    expect(BigInt(Math.round(cost * 1e9))).toBe(before - (await readBalance(gateway)));
    const errors = await readLines(gateway, batch.error_file_id);
    expect(errors.map(({ custom_id, response }) => [custom_id, response?.status_code, response?.body.error])).toEqual([
      ['c', 404, expect.objectContaining({ status: 'NOT_FOUND', code: 404 })],
      ['d', 400, expect.objectContaining({ status: 'INVALID_ARGUMENT', code: 400 })],
    ]);
    const wrong = await createBatch(gateway, [{ ...items[0], url: '/v1beta/models/:generateContent' }], {
      endpoint: '/v1beta/models/{model}:generateContent',
    });
    expect((await endedBatch(gateway, wrong.id)).status).toBe('failed');
  });

  test('for Responses or embeddings has results in the format of that interface', async () => {
    const url = '/v1/responses';
    const body = { model: 'sim/small', input: 'x\n!sim say=hello', store: false };
    const made = await createBatch(gateway, [{ custom_id: 'r', method: 'POST', url, body }], { endpoint: url });
    const [result] = await readLines(gateway, (await endedBatch(gateway, made.id)).output_file_id);
    expect(result?.response?.body).toMatchObject({ object: 'response', status: 'completed' });
    expect(result?.response?.body.usage?.cost).toBeGreaterThan(0);
    const embeddings = '/v1/embeddings';
    const embed = { model: 'sim/embed', input: ['a', 'b'] };
    const second = await createBatch(gateway, [{ custom_id: 'v', method: 'POST', url: embeddings, body: embed }], {
      endpoint: embeddings,
    });
    const ended = await endedBatch(gateway, second.id);
    const [vectors] = await readLines(gateway, ended.output_file_id);
    const record = await readRecord(gateway, vectors?.response?.request_id ?? '');
    expect(vectors?.response?.body).toMatchObject({ object: 'list', data: [{ index: 0 }, { index: 1 }] });
    expect([vectors?.response?.body.usage?.cost, record.batchId]).toEqual([dollars(record.costNanoUsd), second.id]);
  });

  test('runs at the flex tier at half price if the model has that tier, whatever tier an item requests; otherwise at the normal price', async () => {
    const tierAndMultiplier = async (model: string, more: object = {}): Promise<unknown[]> => {
      const made = await createBatch(gateway, [chatItem('x', 'say=ok', { model, ...more })]);
      const [result] = await readLines(gateway, (await endedBatch(gateway, made.id)).output_file_id);
      const record = await readRecord(gateway, result?.response?.request_id ?? '');
      return [result?.response?.body['service_tier'], ...new Set(record.buckets.map(each => each.multiplierPermille))];
    };
    expect(await tierAndMultiplier('sim/large')).toEqual(['flex', 500]);
    expect(await tierAndMultiplier('sim/large', { service_tier: 'priority' })).toEqual(['flex', 500]);
    expect(await tierAndMultiplier('sim/small')).toEqual(['default', 1000]);
  });

  test.each([
    ['a line that is not JSON', [chatItem('a', 'say=x'), '{'], [{ line: 2, code: 'invalid_json_line' }]],
    [
      'a repeated custom_id',
      [chatItem('a', 'say=x'), chatItem('a', 'say=x')],
      [{ line: 2, code: 'duplicate_custom_id' }],
    ],
    [
      'an item for another endpoint',
      [{ ...chatItem('a', 'say=x'), url: '/v1/responses' }],
      [{ line: 1, code: 'invalid_line', param: 'url' }],
    ],
    [
      'an item without a body',
      [{ custom_id: 'a', method: 'POST', url: '/v1/chat/completions' }],
      [{ line: 1, code: 'invalid_line', param: 'body' }],
    ],
    ['a line that is too long', [chatItem('a', `say=${'x'.repeat(1_100_000)}`)], [{ line: 1, code: 'invalid_line' }]],
  ])('with %s fails with errors that name the lines, and nothing runs', async (_, items, faults) => {
    const before = (await allRecords(gateway)).length;
    const text = items.map(item => (typeof item === 'string' ? item : JSON.stringify(item))).join('\n');
    const batch = await endedBatch(gateway, (await createBatch(gateway, text)).id);
    expect(batch.status).toBe('failed');
    expect(batch.errors?.data).toMatchObject(faults);
    expect(await allRecords(gateway)).toHaveLength(before);
  });

  test('with more than 50,000 lines fails', async () => {
    const batch = await endedBatch(gateway, (await createBatch(gateway, '{}\n'.repeat(50_001))).id);
    expect([batch.status, batch.errors?.data[0]?.code]).toEqual(['failed', 'too_many_lines']);
  });

  test('is refused unless it names a file of the account, the window 24h and a supported endpoint', async () => {
    const { id } = (await upload(gateway, jsonLines([chatItem('a', 'say=x')]))).body;
    const create = async (body: object): Promise<unknown[]> => {
      const request = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h', ...body };
      const refused = await call<{ error: { param: string } }>(gateway, '/v1/batches', {
        method: 'POST',
        body: request,
      });
      return [refused.status, refused.body.error.param];
    };
    expect(await create({ input_file_id: 'file-0' })).toEqual([404, 'input_file_id']);
    expect(await create({ completion_window: '1h' })).toEqual([422, 'completion_window']);
    expect(await create({ endpoint: '/v1/images/generations' })).toEqual([422, 'endpoint']);
    expect(await create({ endpoint: '/v1/messages' })).toEqual([422, 'endpoint']);
    expect(await create({ metadata: { a: 'x'.repeat(513) } })).toEqual([422, 'metadata']);
  });

  test('can be cancelled: items that already run finish; the others never start and are free', async () => {
    const items = Array.from({ length: 60 }, (_, at) => chatItem(`i${at}`, 'delay_ms=200 say=x'));
    const { id } = await createBatch(gateway, items);
    await expect.poll(async () => (await getBatch(gateway, id)).request_counts.completed).toBeGreaterThan(0);
    const cancelled = await call<BatchBody>(gateway, `/v1/batches/${id}/cancel`, { method: 'POST' });
    expect(cancelled.body.status).toBe('cancelling');
    const batch = await endedBatch(gateway, id);
    const { completed } = batch.request_counts;
    expect([batch.status, completed < 60]).toEqual(['cancelled', true]);
    expect(await readLines(gateway, batch.output_file_id)).toHaveLength(completed);
    const errors = await readLines(gateway, batch.error_file_id);
    expect(errors).toHaveLength(60 - completed);
    expect(errors[0]).toMatchObject({ response: null, error: { code: 'batch_cancelled' } });
    const charged = (await allRecords(gateway)).filter(({ batchId }) => batchId === id);
    expect(charged).toHaveLength(completed);
    expect((await call(gateway, `/v1/batches/${id}/cancel`, { method: 'POST' })).status).toBe(409);
  });

  test('continues after its file is deleted, and is visible only to its account', async () => {
    const items = Array.from({ length: 12 }, (_, at) => chatItem(`i${at}`, 'delay_ms=100 say=x'));
    const made = await createBatch(gateway, items);
    await call(gateway, `/v1/files/${made.input_file_id}`, { method: 'DELETE' });
    expect((await endedBatch(gateway, made.id)).request_counts.completed).toBe(12);
    const stranger = { ...gateway, apiKey: await createAccount(gateway, '1') };
    expect((await call(stranger, `/v1/batches/${made.id}`)).status).toBe(404);
    const listed = await call<{ data: { id: string }[] }>(gateway, '/v1/batches?limit=1');
    expect(listed.body).toMatchObject({ data: [{ id: made.id }], has_more: true });
    expect((await call<{ data: object[] }>(stranger, '/v1/batches')).body.data).toEqual([]);
  });

  test('without funds, or with a key that is revoked, has failed items with the error that a single request would get', async () => {
    const poor = { ...gateway, apiKey: await createAccount(gateway, '0.000001') };
    const batch = await endedBatch(poor, (await createBatch(poor, [chatItem('a', 'say=x')])).id);
    const [line] = await readLines(poor, batch.error_file_id);
    expect([line?.response?.status_code, line?.response?.body.error?.code]).toEqual([429, 'insufficient_balance']);
    const { key, id } = await makeKey(gateway, {});
    const items = Array.from({ length: 20 }, (_, at) => chatItem(`i${at}`, 'delay_ms=150 say=x'));
    const made = await createBatch({ ...gateway, apiKey: key }, items);
    await expect.poll(async () => (await getBatch(gateway, made.id)).request_counts.completed).toBeGreaterThan(0);
    await gateway.admin.setApiKeyState({ apiKeyId: id, state: KeyState.REVOKED });
    const ended = await endedBatch(gateway, made.id);
    expect(ended.request_counts.completed + ended.request_counts.failed).toBe(20);
    const codes = (await readLines(gateway, ended.error_file_id)).map(({ response }) => response?.body.error?.code);
    expect(new Set(codes)).toEqual(new Set(['invalid_api_key']));
  });

  test('waits while the key’s minute limit is reached', async () => {
    const { key } = await makeKey(gateway, { minuteLimit: 3n });
    const made = await createBatch(
      { ...gateway, apiKey: key },
      Array.from({ length: 5 }, (_, at) => chatItem(`i${at}`, 'say=x')),
    );
    await expect.poll(async () => (await getBatch(gateway, made.id)).request_counts.completed).toBe(3);
    const { status, request_counts: counts } = await getBatch(gateway, made.id);
    expect([status, counts.failed]).toEqual(['in_progress', 0]);
    await call(gateway, `/v1/batches/${made.id}/cancel`, { method: 'POST' });
    expect((await endedBatch(gateway, made.id)).request_counts).toEqual({ total: 5, completed: 3, failed: 0 });
  });
});
