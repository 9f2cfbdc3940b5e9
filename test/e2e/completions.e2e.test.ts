/** The Completions interface (the predecessor of Chat): the built-in model, a second gateway in front of it, and providers whose answers the test sets. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encode } from 'gpt-tokenizer/encoding/cl100k_base';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** What the scripted provider received, and what it answers next: JSON, or chunks of a stream. */
const received: { path: string; body: Record<string, unknown> }[] = [];
let answers: (object | readonly (object | string)[])[] = [];
const scripted = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
    received.push({ path: request.url ?? '', body });
    const answer = answers.shift() ?? { error: { message: 'not scripted' } };
    if (Array.isArray(answer)) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const each of answer as readonly (object | string)[]) {
        response.write(`data: ${typeof each === 'string' ? each : JSON.stringify(each)}\n\n`);
      }
      response.end();
      return;
    }
    response.writeHead('error' in answer ? 500 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer));
  });
});
scripted.listen(0, '127.0.0.1');
await once(scripted, 'listening');
const origin = `http://127.0.0.1:${(scripted.address() as AddressInfo).port}`;

const inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '5' });
const outer = await startGateway({
  config: `
retries: 0
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
  scripted: { protocol: chat, base_url: "${origin}/v1" }
models:
  - { id: acme/small, context_length: 128000, max_output_tokens: 8192, endpoints: [/v1/chat/completions, /v1/completions], pricing: { input: 1, output: 2 }, routes: [{ provider: inner, model: sim/small }] }
  - { id: acme/base, context_length: 1000, max_output_tokens: 500, endpoints: [/v1/completions], pricing: { input: 1, output: 2 }, routes: [{ provider: scripted, model: base-1 }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
  scripted.close();
});

interface Choice {
  readonly text: string;
  readonly index: number;
  readonly logprobs: unknown;
  readonly finish_reason: string | null;
}
interface Answer {
  readonly id: string;
  readonly object: string;
  readonly model: string;
  readonly choices: Choice[];
  readonly usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number; cost: number } | null;
  readonly error?: { code: string; param: string | null; message: string };
}

async function post(gateway: Gateway, body: object): Promise<Response> {
  return fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function complete(gateway: Gateway, body: object): Promise<{ status: number; headers: Headers; body: Answer }> {
  const response = await post(gateway, body);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer };
}

/** Returns the chunks of a stream, and whether it ended with `[DONE]`. */
async function stream(gateway: Gateway, body: object): Promise<{ chunks: Answer[]; isDone: boolean }> {
  const text = await (await post(gateway, { ...body, stream: true })).text();
  const data = text
    .split('\n\n')
    .filter(frame => frame.startsWith('data: '))
    .map(frame => frame.slice(6));
  return {
    chunks: data.filter(each => each !== '[DONE]').map(each => JSON.parse(each) as Answer),
    isDone: data.at(-1) === '[DONE]',
  };
}

const said = (chunks: readonly Answer[], index = 0): string =>
  chunks
    .flatMap(({ choices, error }) =>
      (error === undefined ? choices : []).filter(choice => choice.index === index).map(({ text }) => text),
    )
    .join('');

describe.each([
  { name: 'the built-in model', gateway: inner, model: 'sim/small' },
  { name: 'through a second gateway', gateway: outer, model: 'acme/small' },
])('$name', ({ gateway, model }) => {
  test('obeys the steering line of the prompt, and the tokens are charged', async () => {
    const before = await readBalance(gateway);
    const { status, headers, body } = await complete(gateway, { model, prompt: 'Once\n!sim say=upon a time' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ object: 'text_completion', model });
    expect(body.id).toMatch(/^cmpl-/);
    expect(body.choices).toEqual([{ text: 'upon a time', index: 0, logprobs: null, finish_reason: 'stop' }]);
    expect(body.usage?.completion_tokens).toBe(3);
    const cost = before - (await readBalance(gateway));
    expect(Number(cost) / 1e9).toBe(body.usage?.cost);
    expect(headers.get('x-tollgate-cost')).toBe(String(body.usage?.cost));
    const record = await readRecord(gateway, headers.get('x-request-id') ?? '');
    expect(record).toMatchObject({ state: RecordState.COMPLETED, model });
  });

  test('streams, with usage only if it is requested', async () => {
    const requested = { model, prompt: '!sim say=one two three' };
    const plain = await stream(gateway, requested);
    expect([said(plain.chunks), plain.isDone]).toEqual(['one two three', true]);
    expect(plain.chunks.every(({ usage }) => usage == null)).toBe(true);
    expect(plain.chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    const counted = await stream(gateway, { ...requested, stream_options: { include_usage: true } });
    expect(counted.chunks.at(-1)?.choices).toEqual([]);
    expect(counted.chunks.at(-1)?.usage?.completion_tokens).toBe(3);
  });

  test('several prompts with n and echo: the choices come in the order of the prompts', async () => {
    const prompt = ['first\n!sim say=A', 'second\n!sim say=B'];
    const { body } = await complete(gateway, { model, prompt, n: 2, echo: true });
    expect(body.choices.map(({ text, index }) => [index, text])).toEqual([
      [0, `${prompt[0]}A`],
      [1, `${prompt[0]}A`],
      [2, `${prompt[1]}B`],
      [3, `${prompt[1]}B`],
    ]);
    expect(body.usage?.completion_tokens).toBe(4);
  });

  test('with max_tokens 0 and echo, only the prompt is returned, which is not charged as output', async () => {
    const { body } = await complete(gateway, { model, prompt: 'the prompt', echo: true, max_tokens: 0 });
    expect(body.choices).toEqual([{ text: 'the prompt', index: 0, logprobs: null, finish_reason: 'length' }]);
    expect(body.usage?.completion_tokens).toBe(0);
  });

  test('token ids are converted to their text', async () => {
    const { body } = await complete(gateway, { model, prompt: encode('!sim say=decoded') });
    expect(body.choices[0]?.text).toBe('decoded');
  });

  test('the limit or a stop sequence ends an answer, even if the model ignores the sequence', async () => {
    const cut = await complete(gateway, { model, prompt: '!sim tokens=50', max_tokens: 7 });
    expect(cut.body.choices[0]?.finish_reason).toBe('length');
    expect(cut.body.usage?.completion_tokens).toBe(7);
    const stopped = await complete(gateway, { model, prompt: '!sim say=one STOP two', stop: 'STOP' });
    expect(stopped.body.choices[0]).toMatchObject({ text: 'one ', finish_reason: 'stop' });
    const ignoring = await complete(gateway, { model, prompt: '!sim ignore=stop say=one STOP two', stop: ['STOP'] });
    expect(ignoring.body.choices[0]?.text).toBe('one ');
  });

  test('a broken stream ends with a chunk that has the error; a failed whole answer is free', async () => {
    const { chunks, isDone } = await stream(gateway, { model, prompt: '!sim tokens=30 fail=3' });
    expect(said(chunks)).not.toBe('');
    expect(chunks.at(-1)?.error?.code).toBe('upstream_error');
    expect(isDone).toBe(false);
    const before = await readBalance(gateway);
    expect((await complete(gateway, { model, prompt: '!sim status=500' })).status).toBe(502);
    expect(await readBalance(gateway)).toBe(before);
    expect(await heldBy(gateway)).toBe(0n);
  });
});

describe('refused requests: the error names the field, and nothing is charged', () => {
  const model = 'sim/small';
  const refused: [name: string, body: object, expected: [status: number, code: string, param: string]][] = [
    ['no prompt', { model }, [422, 'validation_error', 'prompt']],
    ['an empty list', { model, prompt: [] }, [422, 'validation_error', 'prompt']],
    ['a number in a list of texts', { model, prompt: ['a', 1] }, [422, 'validation_error', 'prompt[1]']],
    ['a fraction as an id', { model, prompt: [1.5] }, [422, 'validation_error', 'prompt']],
    ['max_tokens 0 without echo', { model, prompt: 'a', max_tokens: 0 }, [422, 'validation_error', 'max_tokens']],
    ['too many choices', { model, prompt: ['a', 'b'], n: 65 }, [422, 'validation_error', 'prompt']],
    ['log probabilities', { model, prompt: 'a', logprobs: 2 }, [400, 'unsupported_feature', 'logprobs']],
    ['a model without the path', { model: 'sim/large', prompt: 'a' }, [400, 'model_not_supported', 'model']],
  ];
  test.each(refused)('%s', async (_, body, expected) => {
    const before = await readBalance(inner);
    const answer = await complete(inner, body);
    expect([answer.status, answer.body.error?.code, answer.body.error?.param]).toEqual(expected);
    expect(await readBalance(inner)).toBe(before);
  });

  test('if the model does not have this path, the error points to Chat Completions', async () => {
    const { body } = await complete(inner, { model: 'sim/large', prompt: 'a' });
    expect(body.error?.message).toContain('/v1/chat/completions');
  });
});

describe('providers', () => {
  const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };

  test('the body of the request and that of the answer are passed on unchanged', async () => {
    received.length = 0;
    const logprobs = { tokens: ['a', 'b'], token_logprobs: [null, -0.5], top_logprobs: null, text_offset: [0, 1] };
    const requested = {
      prompt: [[1, 2], [3]],
      suffix: 'end',
      max_tokens: 4,
      logprobs: 1,
      echo: true,
      best_of: 1,
      top_k: 7,
    };
    const first = [{ text: 'ab', index: 0, logprobs, finish_reason: 'stop' }];
    const second = { text: 'cd', index: 1, logprobs: null, finish_reason: 'eos', matched: 1 };
    answers = [{ id: 'x', choices: [...first, second], usage, kv: 1 }];
    const before = await readBalance(outer);
    const { body } = await complete(outer, { model: 'acme/base', ...requested });
    expect(received).toEqual([{ path: '/v1/completions', body: { model: 'base-1', ...requested } }]);
    expect(body).toMatchObject({ kv: 1, choices: [...first, second] });
    expect(before - (await readBalance(outer))).toBe(5_000n + 6_000n);
  });

  test('the upstream is asked for usage in a stream; log probabilities stay with their text, and are joined in a whole answer', async () => {
    received.length = 0;
    const lists = (token: string) => ({ tokens: [token], token_logprobs: [-1], top_logprobs: [{}], text_offset: [0] });
    const chunk = (text: string, more: object = {}) => ({
      choices: [{ text, index: 0, finish_reason: null, ...more }],
    });
    const script = [
      chunk('a', { logprobs: lists('a') }),
      chunk('b', { logprobs: lists('b') }),
      chunk('', { finish_reason: 'length' }),
      { choices: [], usage },
      '[DONE]',
    ];
    answers = [script, script];
    const streamed = await stream(outer, { model: 'acme/base', prompt: 'p', logprobs: 0 });
    expect(received[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    expect(streamed.chunks.map(({ choices }) => choices[0])).toEqual([
      { text: 'a', index: 0, logprobs: lists('a'), finish_reason: null },
      { text: 'b', index: 0, logprobs: lists('b'), finish_reason: null },
      { text: '', index: 0, logprobs: null, finish_reason: 'length' },
    ]);
    // Because of the stop sequence the gateway requests a stream.
    const whole = await complete(outer, { model: 'acme/base', prompt: 'p', logprobs: 0, stop: 'x' });
    expect(whole.body.choices).toEqual([
      {
        text: 'ab',
        index: 0,
        finish_reason: 'length',
        logprobs: { tokens: ['a', 'b'], token_logprobs: [-1, -1], top_logprobs: [{}, {}], text_offset: [0, 0] },
      },
    ]);
  });

  test('an echoed prompt is neither cut at the limit nor searched for stop sequences', async () => {
    const prompt = 'word STOP '.repeat(50);
    answers = [{ choices: [{ text: `${prompt}end`, index: 0, finish_reason: 'stop' }], usage }];
    const { body } = await complete(outer, { model: 'acme/base', prompt, echo: true, max_tokens: 2, stop: 'STOP' });
    expect(body.choices[0]).toMatchObject({ text: `${prompt}end`, finish_reason: 'stop' });
  });

  test('several prompts are accepted if each fits into the context, however long they are together', async () => {
    const prompt = ['word '.repeat(700), 'word '.repeat(700)];
    const choices = [0, 1].map(index => ({ text: 'x', index, finish_reason: 'stop' }));
    answers = [{ choices, usage: { prompt_tokens: 1400, completion_tokens: 2 } }];
    expect((await complete(outer, { model: 'acme/base', prompt })).body.choices).toHaveLength(2);
    const long = await complete(outer, { model: 'acme/base', prompt: prompt.join('') });
    expect([long.status, long.body.error?.code]).toEqual([400, 'context_length_exceeded']);
  });

  const broken: [name: string, answer: object][] = [
    ['too few choices', { choices: [{ text: 'a', index: 0, finish_reason: 'stop' }], usage }],
    ['another choice', { choices: [0, 5].map(index => ({ text: 'a', index, finish_reason: 'stop' })), usage }],
  ];
  test.each(broken)('%s: 502 and free', async (_, answer) => {
    answers = [answer];
    const before = await readBalance(outer);
    const { status } = await complete(outer, { model: 'acme/base', prompt: 'a', n: 2 });
    expect(status).toBe(502);
    expect(await readBalance(outer)).toBe(before);
  });

  test('a complete answer without finish reasons is an answer, and is paid', async () => {
    answers = [{ choices: [0, 1].map(index => ({ text: 'a', index, finish_reason: null })), usage }];
    const before = await readBalance(outer);
    const { status, body } = await complete(outer, { model: 'acme/base', prompt: 'a', n: 2 });
    expect([status, body.choices?.map(choice => choice.finish_reason)]).toEqual([200, ['stop', 'stop']]);
    expect(await readBalance(outer)).toBeLessThan(before);
  });
});
