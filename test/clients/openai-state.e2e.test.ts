/** State of responses, as the official `openai` client uses it: continued, read back, in the background, cancelled, deleted. Ids like MI-05 name cases of `test/translation/cases.json`. */
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { APIError, BadRequestError, NotFoundError } from 'openai';
import type {
  Response as Resource,
  ResponseInputItem,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { toRequestId } from '../../src/generation/response-ids.ts';
import { payg } from '../e2e/chat-client.ts';
import { readBalance, makeKey, readRecord } from '../gateway.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const makeClient = (apiKey: string): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
const client = makeClient(gateway.apiKey);
const model = payg;

/** Waits until a response has ended. */
async function ended(id: string): Promise<Resource> {
  for (const deadline = performance.now() + 30_000; performance.now() < deadline; await sleep(20)) {
    const response = await client.responses.retrieve(id);
    if (response.status !== 'queued' && response.status !== 'in_progress') return response;
  }
  throw new Error(`${id} does not end`);
}

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of list) found.push(each);
  return found;
}

async function refused(work: Promise<unknown>): Promise<APIError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(APIError);
  return error as APIError;
}

const lastSequence = (events: readonly ResponseStreamEvent[]): number => events.at(-1)?.sequence_number ?? -1;
const terminal = (events: readonly ResponseStreamEvent[]): Resource => {
  const last = events.at(-1);
  if (last === undefined || !('response' in last)) throw new Error('no terminal event');
  return last.response;
};

const weather = {
  type: 'function' as const,
  name: 'get_weather',
  description: 'The weather of a city',
  strict: true,
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
};

describe('a response', () => {
  test('that is stored is read back as it was answered, whole and streamed', async () => {
    const whole = await client.responses.create({ model, input: '!sim say=Hello there.', metadata: { run: '7' } });
    expect(await client.responses.retrieve(whole.id)).toEqual(whole);
    const streamed = await all(await client.responses.create({ model, input: '!sim say=Hello there.', stream: true }));
    const { output_text: _, ...resource } = { ...terminal(streamed), output_text: '' };
    const { output_text: __, ...stored } = await client.responses.retrieve(resource.id);
    expect(stored).toEqual(resource);
  });

  test('that is stored can be read and continued as soon as its last event has arrived (MI-05)', async () => {
    const stream = await client.responses.create({ model, input: '!sim say=Here.', stream: true });
    for await (const event of stream) {
      if (event.type !== 'response.completed') continue;
      const { id } = event.response;
      const [read, next] = await Promise.all([
        client.responses.retrieve(id),
        client.responses.create({ model, input: '!sim say=On.', previous_response_id: id }),
      ]);
      expect([read.status, read.output_text, next.output_text]).toEqual(['completed', 'Here.', 'On.']);
    }
  });

  test('with `store: false` is not found, and can’t be continued (RP-12)', async () => {
    const response = await client.responses.create({ model, input: '!sim say=Hello.', store: false });
    expect(response).toMatchObject({ store: false });
    expect(await refused(client.responses.retrieve(response.id))).toBeInstanceOf(NotFoundError);
    const error = await refused(client.responses.create({ model, input: 'and?', previous_response_id: response.id }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect([error.code, error.param]).toEqual(['previous_response_not_found', 'previous_response_id']);
  });

  test('of another account is not found by any call; a response of another key of the same account is found', async () => {
    const { id, output } = await client.responses.create({ model, input: '!sim say=Mine.' });
    const { account } = await gateway.admin.createAccount({ name: 'other', balanceNanoUsd: 1_000_000_000n });
    const made = await gateway.admin.createApiKey({ accountId: account?.accountId ?? 0n, settings: {} });
    const other = makeClient(made.key?.key ?? '');
    for (const requested of [
      () => other.responses.retrieve(id),
      () => other.responses.cancel(id),
      () => other.responses.delete(id),
      () => other.responses.inputItems.list(id),
      () => other.responses.retrieve(id, { stream: true }),
    ]) {
      const error = await refused(Promise.resolve(requested()));
      expect([error.status, error.code]).toEqual([404, 'not_found']);
    }
    const continued = await refused(other.responses.create({ model, input: 'x', previous_response_id: id }));
    expect(continued.code).toBe('previous_response_not_found');
    const reference = { type: 'item_reference' as const, id: output[0]?.id ?? '' };
    const referred = await refused(other.responses.create({ model, input: [reference] }));
    expect([referred.status, referred.param]).toEqual([400, 'input.0.id']);
    const sibling = makeClient((await makeKey(gateway)).key);
    expect((await sibling.responses.retrieve(id)).id).toBe(id);
  });

  test('that was deleted is not found; responses that continue from it do not change', async () => {
    const first = await client.responses.create({ model, input: '!sim say=One.' });
    const second = await client.responses.create({ model, input: '!sim say=Two.', previous_response_id: first.id });
    await client.responses.delete(first.id);
    expect(await refused(client.responses.retrieve(first.id))).toBeInstanceOf(NotFoundError);
    expect(await refused(client.responses.delete(first.id))).toBeInstanceOf(NotFoundError);
    const third = await client.responses.create({ model, input: '!sim say=Three.', previous_response_id: second.id });
    const texts = (await all(client.responses.inputItems.list(third.id, { order: 'asc' }))).map(readText);
    expect(texts).toEqual(['!sim say=One.', 'One.', '!sim say=Two.', 'Two.', '!sim say=Three.']);
  });

  test('whose client disconnects is stored as cancelled, with the text that was delivered', async () => {
    const stream = await client.responses.create({ model, input: '!sim tokens=4000 tps=100', stream: true });
    let id = '';
    let text = '';
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta') text += event.delta;
      if (text.length > 40) break;
    }
    const record = await readRecord(gateway, toRequestId(id) ?? '');
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    let response = await client.responses.retrieve(id).catch(() => undefined);
    for (let tries = 0; response === undefined && tries < 100; tries++) {
      await sleep(20);
      response = await client.responses.retrieve(id).catch(() => undefined);
    }
    expect(response?.status).toBe('cancelled');
    expect(response?.output_text.startsWith(text)).toBe(true);
    const next = await client.responses.create({ model, input: '!sim say=Going on.', previous_response_id: id });
    expect(next.output_text).toBe('Going on.');
  });

  test('whose provider fails in the middle is stored as failed', async () => {
    const events: ResponseStreamEvent[] = [];
    const stream = await client.responses.create({ model, input: '!sim fail=3 tokens=200', stream: true });
    await (async () => {
      for await (const event of stream) events.push(event);
    })().catch(() => undefined);
    const [created] = events;
    if (created?.type !== 'response.created') throw new Error('not created');
    const response = await client.responses.retrieve(created.response.id);
    expect([response.status, response.error?.code]).toEqual(['failed', 'upstream_error']);
    expect(response.output_text.length).toBeGreaterThan(0);
  });
});

describe('a conversation of responses', () => {
  test('continues from `previous_response_id`: the model sees the earlier input and output and the new input, never the old instructions (RP-14)', async () => {
    const first = await client.responses.create({ model, instructions: 'Old rules.', input: '!sim say=I am one.' });
    const second = await client.responses.create({
      model,
      input: '!sim say=I am two.',
      previous_response_id: first.id,
    });
    expect(second.instructions).toBeNull();
    expect(second.previous_response_id).toBe(first.id);
    const flat = await client.responses.inputTokens.count({
      model,
      input: [
        { role: 'user', content: '!sim say=I am one.' },
        { role: 'assistant', content: 'I am one.' },
        { role: 'user', content: '!sim say=I am two.' },
      ],
    });
    expect(second.usage?.input_tokens).toBe(flat.input_tokens);
    const counted = await client.responses.inputTokens.count({
      model,
      input: '!sim say=I am two.',
      previous_response_id: first.id,
    });
    expect(counted.input_tokens).toBe(flat.input_tokens);
  });

  test('with tools needs only `previous_response_id` and the results; a result for an unknown call is refused (RP-15)', async () => {
    const input = 'What is the weather in Oslo?';
    const requested = await client.responses.create({ model, input, tools: [weather], tool_choice: 'required' });
    const call = requested.output.find(item => item.type === 'function_call');
    expect(call?.name).toBe('get_weather');
    const answered = await client.responses.create({
      model,
      tools: [weather],
      previous_response_id: requested.id,
      input: [{ type: 'function_call_output', call_id: call?.call_id ?? '', output: 'Sunny, 21 degrees' }],
    });
    expect(answered.status).toBe('completed');
    expect(answered.output.some(item => item.type === 'message')).toBe(true);
    const items = await all(client.responses.inputItems.list(answered.id, { order: 'asc' }));
    expect(items.map(item => item.type)).toEqual(['message', 'function_call', 'function_call_output']);
    const unknown = await refused(
      client.responses.create({
        model,
        tools: [weather],
        previous_response_id: requested.id,
        input: [{ type: 'function_call_output', call_id: 'call_no', output: 'Sunny' }],
      }),
    );
    // A Responses upstream checks the call ids itself.
    const code = upstream === 'responses' ? 'upstream_rejected' : 'unsupported_parameter';
    expect([unknown.status, unknown.code, unknown.param]).toEqual([400, code, 'input']);
    expect(unknown.message).toContain('call_no');
  });

  test('continues from items that are referenced by id, from earlier output or input', async () => {
    const first = await client.responses.create({ model, input: 'Remember the word heron.\n!sim say=Done.' });
    const [input] = await all(client.responses.inputItems.list(first.id));
    const references = [input?.id, first.output[0]?.id].map(id => ({ type: 'item_reference' as const, id: id ?? '' }));
    const second = await client.responses.create({
      model,
      input: [...references, { role: 'user', content: '!sim say=Heron.' }],
    });
    const items = await all(client.responses.inputItems.list(second.id, { order: 'asc' }));
    expect(items.map(readText)).toEqual(['Remember the word heron.\n!sim say=Done.', 'Done.', '!sim say=Heron.']);
    const unknown = await refused(
      client.responses.create({ model, input: [{ type: 'item_reference', id: 'msg_no' }] }),
    );
    expect([unknown.status, unknown.code, unknown.param]).toEqual([400, 'unsupported_parameter', 'input.0.id']);
  });

  test('is listed as the input items of its last response, in pages, newest first by default', async () => {
    const input: ResponseInputItem[] = Array.from({ length: 25 }, (_, n) => ({ role: 'user', content: `line ${n}` }));
    input.push({ role: 'user', content: '!sim say=ok' });
    const { id } = await client.responses.create({ model, input });
    const page = await client.responses.inputItems.list(id);
    expect([page.data.length, page.has_more, readText(page.data[0])]).toEqual([20, true, '!sim say=ok']);
    expect((await all(client.responses.inputItems.list(id, { limit: 7 }))).map(readText)).toEqual([
      '!sim say=ok',
      ...Array.from({ length: 25 }, (_, n) => `line ${24 - n}`),
    ]);
    const ascending = await client.responses.inputItems.list(id, {
      order: 'asc',
      limit: 2,
      after: page.data[19]?.id ?? '',
    });
    expect(ascending.data.map(readText)).toEqual(['line 7', 'line 8']);
    for (const query of [{ limit: 0 }, { limit: 101 }, { after: 'msg_unknown' }, { order: 'up' as 'asc' }]) {
      expect((await refused(client.responses.inputItems.list(id, query))).status).toBe(400);
    }
  });

  test('lists an item as often as it was sent, each time with another id; all but the client’s own ids can be referenced', async () => {
    const message = (text: string): ResponseInputItem => ({ id: 'msg_of_client', role: 'user', content: text });
    const first = await client.responses.create({ model, input: [message('one'), message('two\n!sim say=Three')] });
    const again = await client.responses.create({
      model,
      previous_response_id: first.id,
      input: [{ type: 'item_reference', id: first.output[0]?.id ?? '' }, message('!sim say=ok')],
    });
    const expected = ['one', 'two\n!sim say=Three', 'Three', 'Three', '!sim say=ok'];
    const items = await all(client.responses.inputItems.list(again.id, { order: 'asc', limit: 1 }));
    expect(items.map(readText)).toEqual(expected);
    expect(new Set(items.map(({ id }) => id)).size).toBe(5);
    // The first item keeps the client’s id, which can’t be referenced.
    const named = items.slice(1).map(({ id }): ResponseInputItem => ({ type: 'item_reference', id: id ?? '' }));
    const third = await client.responses.create({ model, input: [...named, { role: 'user', content: 'last' }] });
    const listed = await all(client.responses.inputItems.list(third.id, { order: 'asc', limit: 2 }));
    expect(listed.map(readText)).toEqual([...expected.slice(1), 'last']);
  });

  test('is compacted to the user’s messages and one encrypted item, from which it continues', async () => {
    const first = await client.responses.create({ model, input: 'My name is Ada.\n!sim say=Hello Ada.' });
    const before = await readBalance(gateway);
    const compacted = await client.responses.compact({
      model,
      previous_response_id: first.id,
      input: [{ role: 'user', content: 'I live in Bergen.' }],
    });
    expect([compacted.object, compacted.output.map(item => item.type)]).toEqual([
      'response.compaction',
      ['message', 'message', 'compaction'],
    ]);
    expect(compacted.usage.output_tokens).toBeGreaterThan(0);
    expect(await readBalance(gateway)).toBeLessThan(before);
    const record = await readRecord(gateway, toRequestId(compacted.id) ?? '');
    expect(Number(record.costNanoUsd)).toBe(Math.round((compacted.usage as unknown as { cost: number }).cost * 1e9));
    const input = compacted.output.filter(item => item.type === 'compaction' || item.type === 'message');
    const next = await client.responses.create({
      model,
      input: [...(input as ResponseInputItem[]), { role: 'user', content: '!sim say=Still here.' }],
    });
    expect(next.output_text).toBe('Still here.');
    const sealed = compacted.output.find(item => item.type === 'compaction');
    expect(sealed?.encrypted_content).toMatch(/^tg1\./);
    const foreign = { type: 'compaction' as const, encrypted_content: 'gAAAAABo' };
    const changed = { type: 'compaction' as const, encrypted_content: `${sealed?.encrypted_content.slice(0, -2)}AA` };
    for (const item of [foreign, changed]) {
      const error = await refused(client.responses.create({ model, input: [item, { role: 'user', content: 'x' }] }));
      expect([error.status, error.param]).toEqual([400, 'input.0.encrypted_content']);
    }
  });

  test('keeps encrypted reasoning between turns that are not stored', async () => {
    const requested = {
      model,
      store: false,
      reasoning: { effort: 'low' as const },
      include: ['reasoning.encrypted_content' as const],
    };
    const first = await client.responses.create({ ...requested, input: '!sim say=Thought about.' });
    const [reasoning] = first.output;
    if (reasoning?.type !== 'reasoning') throw new Error('no reasoning');
    expect(reasoning.encrypted_content).toMatch(/^tg1\.[\w-]+$/);
    const again: ResponseInputItem[] = [
      ...(first.output as ResponseInputItem[]),
      { role: 'user', content: '!sim say=Again.' },
    ];
    expect((await client.responses.create({ ...requested, input: again })).output_text).toBe('Again.');
    const broken = { ...reasoning, encrypted_content: `tg1.${'A'.repeat(80)}` };
    const error = await refused(
      client.responses.create({ ...requested, input: [broken, { role: 'user', content: 'x' }] }),
    );
    expect([error.status, error.param]).toEqual([400, 'input.0.encrypted_content']);
  });
});

describe('in the background', () => {
  test('the request is answered at once, and the response can be polled until it ends', async () => {
    const queued = await client.responses.create({ model, input: '!sim delay_ms=700 say=Late.', background: true });
    expect([queued.status, queued.background, queued.output]).toEqual(['queued', true, []]);
    const done = await ended(queued.id);
    expect([done.status, done.output_text]).toEqual(['completed', 'Late.']);
    const record = await readRecord(gateway, toRequestId(queued.id) ?? '');
    expect((done.usage as unknown as { cost: number }).cost).toBe(Number(record.costNanoUsd) / 1e9);
  });

  test('a response must be stored', async () => {
    const error = await refused(client.responses.create({ model, input: 'x', background: true, store: false }));
    expect([error.status, error.param]).toEqual([400, 'background']);
  });

  test('a bad request is refused at once, and nothing is stored', async () => {
    const error = await refused(client.responses.create({ model: 'no/such', input: 'x', background: true }));
    expect([error.status, error.code]).toEqual([400, 'model_not_found']);
  });

  test('a stream can be continued where it was cut, and its replay is the same from any position', async () => {
    const input = '!sim tokens=60 tps=200';
    const stream = await client.responses.create({ model, input, background: true, stream: true });
    const seen: ResponseStreamEvent[] = [];
    for await (const event of stream) {
      seen.push(event);
      if (seen.length === 12) break;
    }
    const [created] = seen;
    if (created?.type !== 'response.created') throw new Error('not created');
    const { id } = created.response;
    expect(seen.slice(0, 3).map(event => event.type)).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
    ]);
    const rest = await all(await client.responses.retrieve(id, { stream: true, starting_after: lastSequence(seen) }));
    expect(rest[0]?.sequence_number).toBe(12);
    const whole = await all(await client.responses.retrieve(id, { stream: true }));
    expect(whole).toEqual([...seen, ...rest]);
    expect(whole.map(event => event.sequence_number)).toEqual(whole.map((_, index) => index));
    const { output_text: _, ...stored } = await ended(id);
    expect({ ...terminal(whole) }).toEqual(stored);
    expect(stored.status).toBe('completed');
    expect(await all(await client.responses.retrieve(id, { stream: true, starting_after: 10_000 }))).toEqual([]);
  });

  test('a response can be followed with `include` fields that its request did not name', async () => {
    const { id } = await client.responses.create({
      model,
      input: '!sim say=Thought about.',
      reasoning: { effort: 'low' },
      background: true,
    });
    const include = ['reasoning.encrypted_content' as const];
    const events = await all(await client.responses.retrieve(id, { stream: true, include }));
    const { output_text: _, ...shown } = await client.responses.retrieve(id, { include });
    expect(terminal(events)).toEqual(shown);
    expect(shown.output[0]).toMatchObject({ type: 'reasoning', encrypted_content: expect.stringMatching(/^tg1\./) });
    const plain = await all(await client.responses.retrieve(id, { stream: true }));
    expect(plain.map(event => event.sequence_number)).toEqual(events.map(event => event.sequence_number));
    expect(JSON.stringify(plain)).not.toContain('tg1.');
  });

  test('a response that was not requested as a stream can be followed', async () => {
    const { id } = await client.responses.create({ model, input: '!sim tokens=40 tps=100', background: true });
    const events = await all(await client.responses.retrieve(id, { stream: true }));
    expect(events.at(-1)?.type).toBe('response.completed');
    const { output_text: _, ...stored } = await client.responses.retrieve(id);
    expect(terminal(events)).toEqual(stored);
  });

  test('a response that did not run in the background can’t be streamed afterwards', async () => {
    const { id } = await client.responses.create({ model, input: '!sim say=x' });
    const error = await refused(Promise.resolve(client.responses.retrieve(id, { stream: true })));
    expect([error.status, error.param]).toEqual([400, 'stream']);
  });

  test('a response can be cancelled while it runs, keeps the text that was delivered, and its followers get the last event', async () => {
    const { id } = await client.responses.create({ model, input: '!sim tokens=4000 tps=200', background: true });
    const following = client.responses.retrieve(id, { stream: true }).then(stream => all(stream));
    while ((await client.responses.retrieve(id)).output_text.length < 40) await sleep(10);
    const requested = performance.now();
    const cancelled = await client.responses.cancel(id);
    expect(performance.now() - requested).toBeLessThan(1_000);
    expect(cancelled.status).toBe('cancelled');
    const { output_text: delivered, ...stored } = await client.responses.retrieve(id);
    expect(delivered.length).toBeGreaterThanOrEqual(40);
    expect(cancelled).toEqual(stored);
    expect(terminal(await following)).toEqual(stored);
    expect((await readRecord(gateway, toRequestId(id) ?? '')).state).toBe(RecordState.CLIENT_ABORTED);
    expect(await client.responses.cancel(id)).toEqual(cancelled);
  });

  test('a response that still waits for its model can be cancelled; a provider’s unseen output is estimated at a few tokens', async () => {
    const { id } = await client.responses.create({ model, input: '!sim delay_ms=60000', background: true });
    expect((await client.responses.retrieve(id)).status).toBe('queued');
    expect((await client.responses.cancel(id)).status).toBe('cancelled');
    const record = await readRecord(gateway, toRequestId(id) ?? '');
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    // Of the built-in model none; of a provider what it generates in such a time at the rate that the gateway has seen.
    expect(record.usage?.outputTokens).toBeLessThan(20);
  });

  test('cancelling an ended response changes nothing; one that is not in the background can’t be cancelled', async () => {
    const { id } = await client.responses.create({ model, input: '!sim say=Done.', background: true });
    const done = await ended(id);
    expect({ ...(await client.responses.cancel(id)), output_text: 'Done.' }).toEqual(done);
    const plain = await client.responses.create({ model, input: '!sim say=Done.' });
    expect((await refused(client.responses.cancel(plain.id))).status).toBe(400);
    expect((await refused(client.responses.cancel('resp_unknown'))).status).toBe(404);
  });

  test('deleting a running response ends it', async () => {
    const { id } = await client.responses.create({ model, input: '!sim tokens=4000 tps=100', background: true });
    while ((await client.responses.retrieve(id)).status === 'queued') await sleep(5);
    await client.responses.delete(id);
    expect((await refused(client.responses.retrieve(id))).status).toBe(404);
    expect((await readRecord(gateway, toRequestId(id) ?? '')).state).toBe(RecordState.CLIENT_ABORTED);
  });

  test('a provider’s failure fails the response', async () => {
    const early = await client.responses.create({ model, input: '!sim status=500', background: true });
    const late = await client.responses.create({ model, input: '!sim fail=2 tokens=100', background: true });
    for (const { id } of [early, late]) {
      const failed = await ended(id);
      expect([failed.status, failed.error?.code]).toEqual(['failed', 'upstream_error']);
      const types: string[] = [];
      const stream = await client.responses.retrieve(id, { stream: true });
      await (async () => {
        for await (const event of stream) types.push(event.type);
      })().catch(() => undefined);
      expect(types.slice(0, 2)).toEqual(['response.created', 'response.queued']);
    }
    expect((await readRecord(gateway, toRequestId(early.id) ?? '')).costNanoUsd).toBe(0n);
    expect((await readRecord(gateway, toRequestId(late.id) ?? '')).costNanoUsd).toBeGreaterThan(0n);
  });

  test('a response that still runs can’t be continued yet', async () => {
    const { id } = await client.responses.create({ model, input: '!sim delay_ms=60000', background: true });
    const error = await refused(client.responses.create({ model, input: 'x', previous_response_id: id }));
    expect(error.code).toBe('previous_response_not_found');
    await client.responses.cancel(id);
  });
});

/** Returns the text of an item's content. */
function readText(item: unknown): string {
  const { content } = item as { content?: string | { text?: string }[] };
  return typeof content === 'string' ? content : (content ?? []).map(part => part.text ?? '').join('');
}
