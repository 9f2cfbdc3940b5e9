/** Files and batches with the unmodified official clients. */
import Anthropic from '@anthropic-ai/sdk';
import { OpenAI, toFile } from 'openai';
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));

const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: gateway.apiKey, maxRetries: 0 });
const lines = Array.from({ length: 12 }, (_, at) => {
  const messages = [{ role: 'user', content: `x\n!sim say=answer ${at}` }];
  const body = { model: 'sim/small', messages };
  return JSON.stringify({ custom_id: `item-${at}`, method: 'POST', url: '/v1/chat/completions', body });
});

test('openai: a file is uploaded, run as a batch, and its results are read; pages continue by themselves', async () => {
  const file = await openai.files.create({
    file: await toFile(Buffer.from(lines.join('\n')), 'requests.jsonl'),
    purpose: 'batch',
  });
  expect([file.object, file.filename, file.status]).toEqual(['file', 'requests.jsonl', 'processed']);
  const made = await openai.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    metadata: { job: 'nightly' },
  });
  let batch = made;
  await expect
    .poll(async () => (batch = await openai.batches.retrieve(made.id)).status, { timeout: 20_000 })
    .toBe('completed');
  expect(batch).toMatchObject({
    metadata: { job: 'nightly' },
    request_counts: { total: 12, completed: 12, failed: 0 },
  });
  const text = await (await openai.files.content(batch.output_file_id ?? '')).text();
  const results = text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { custom_id: string; response: { body: OpenAI.ChatCompletion } });
  expect(results.map(({ response }) => response.body.choices[0]?.message.content)).toEqual(
    lines.map((_, at) => `answer ${at}`),
  );
  const files: string[] = [];
  for await (const { id } of openai.files.list({ limit: 1 })) files.push(id);
  expect(files).toEqual([batch.output_file_id, file.id]);
  const batches: string[] = [];
  for await (const { id } of openai.batches.list({ limit: 1 })) batches.push(id);
  expect(batches).toEqual([made.id]);
  expect(await openai.files.delete(file.id)).toMatchObject({ id: file.id, deleted: true });
  await expect(openai.files.retrieve(file.id)).rejects.toMatchObject({ status: 404 });
});

test('@anthropic-ai/sdk: a batch is made, waited for, and its results() are read', async () => {
  const made = await anthropic.messages.batches.create({
    requests: Array.from({ length: 12 }, (_, at) => ({
      custom_id: `item-${at}`,
      params: { model: 'sim/large', max_tokens: 50, messages: [{ role: 'user', content: `x\n!sim say=answer ${at}` }] },
    })),
  });
  await expect
    .poll(async () => (await anthropic.messages.batches.retrieve(made.id)).processing_status, { timeout: 20_000 })
    .toBe('ended');
  const texts: string[] = [];
  for await (const { result } of await anthropic.messages.batches.results(made.id)) {
    if (result.type !== 'succeeded') throw new Error(result.type);
    texts.push(result.message.content.map(block => (block.type === 'text' ? block.text : '')).join(''));
  }
  expect(texts).toEqual(lines.map((_, at) => `answer ${at}`));
  const listed: string[] = [];
  for await (const { id } of anthropic.messages.batches.list({ limit: 1 })) listed.push(id);
  expect(listed).toEqual([made.id]);
  expect(await anthropic.messages.batches.delete(made.id)).toMatchObject({ id: made.id });
});
