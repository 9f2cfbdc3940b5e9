/** The official `openai` client against a running gateway. */
import OpenAI, { type ClientOptions } from 'openai';
import { LengthFinishReasonError } from 'openai/core/error';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import type { ChatCompletionTool } from 'openai/resources/chat/completions';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { payg } from '../e2e/chat-client.ts';
import { makePngUrl } from '../e2e/sample-image.ts';
import { readBalance, makeKey, readRecord } from '../gateway.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
const gateway = await startTarget();
afterAll(() => endTarget(gateway));

/** Messages upstreams have no `n`, no log probabilities, and no JSON mode without a schema except by instruction. */
const isMessages = upstream === 'messages';
/** Only Chat upstreams can return several choices. */
const lacksChoices = isMessages || upstream === 'responses';

/** Counts the HTTP requests that clients send, retries included. */
const sent = { requests: 0 };
function makeClient(options: ClientOptions = {}): OpenAI {
  return new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: gateway.apiKey,
    fetch: (input, init) => {
      sent.requests += 1;
      return fetch(input, init);
    },
    ...options,
  });
}
const client = makeClient();

const weather: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
};

const user = (content: string): { role: 'user'; content: string } => ({ role: 'user', content });

describe('models', () => {
  test('list returns the built-in models, with the fields that clients read', async () => {
    const models = [];
    for await (const model of client.models.list()) models.push(model);
    expect(models.find(({ id }) => id === payg)).toMatchObject({
      id: payg,
      object: 'model',
      owned_by: 'tollgate-simulator',
    });
    expect(models.every(({ created }) => Number.isInteger(created))).toBe(true);
    expect(models.some(({ id }) => id.endsWith(':free'))).toBe(true);
  });

  test('retrieve finds every listed id, whatever characters it has', async () => {
    const { data } = await client.models.list();
    const found = await Promise.all(data.map(({ id }) => client.models.retrieve(id)));
    expect(found.map(({ id }) => id)).toEqual(data.map(({ id }) => id));
  });

  test('retrieve of an unknown id is NotFoundError', async () => {
    const failure = await client.models.retrieve('sim/nothing').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OpenAI.NotFoundError);
    expect(failure).toMatchObject({ status: 404, code: 'not_found', type: 'invalid_request_error' });
  });
});

describe('text', () => {
  test('create answers a conversation, with usage, cost and balance that agree', async () => {
    const before = await readBalance(gateway);
    const { data, response, request_id } = await client.chat.completions
      .create({
        model: payg,
        messages: [
          { role: 'system', content: 'You are brief.' },
          user('What is a toll gate?'),
          { role: 'assistant', content: 'A barrier where one pays.' },
          user('And who pays?'),
        ],
      })
      .withResponse();
    expect(data.object).toBe('chat.completion');
    expect(data.model).toBe(payg);
    expect(data.id).toBe(`chatcmpl-${request_id?.slice('req_'.length)}`);
    expect(data.choices).toHaveLength(1);
    expect(data.choices[0]).toMatchObject({
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', refusal: null },
    });
    expect(data.choices[0]?.message.content).not.toBe('');
    const usage = data.usage;
    expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0));
    const cost = Number(response.headers.get('x-tollgate-cost'));
    expect(usage).toMatchObject({ cost });
    expect(cost).toBeGreaterThan(0);
    expect(before - (await readBalance(gateway))).toBe(BigInt(Math.round(cost * 1e9)));
  });

  test('the stream helper returns the same text as its deltas, and the requested usage', async () => {
    const stream = client.chat.completions.stream({
      model: payg,
      messages: [user('Write a long text about bridges.\n!sim tokens=300')],
      stream_options: { include_usage: true },
    });
    let deltas = '';
    let count = 0;
    let done = '';
    stream.on('content.delta', ({ delta, snapshot }) => {
      deltas += delta;
      count += 1;
      expect(snapshot).toBe(deltas);
    });
    stream.on('content.done', ({ content }) => (done = content));
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe(deltas);
    expect(done).toBe(deltas);
    expect(count).toBeGreaterThan(20);
    expect(final.usage?.completion_tokens).toBe(300);
    expect((await stream.totalUsage()).completion_tokens).toBe(300);
  });

  test('the chunks of a stream have one id, the role first, the finish reason once, and usage null until the last', async () => {
    const stream = await client.chat.completions.create({
      model: payg,
      messages: [user('Hello')],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(1);
    expect(chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: '' });
    expect(chunks.filter(({ choices }) => choices[0]?.finish_reason != null)).toHaveLength(1);
    expect(chunks.slice(0, -1).map(({ usage }) => usage)).toEqual(chunks.slice(1).map(() => null));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { cost: expect.any(Number) } });
  });

  test('keep-alive comments in a slow stream do not break the client', async () => {
    const stream = client.chat.completions.stream({
      model: payg,
      messages: [user('Hi\n!sim delay_ms=300 tokens=6 tps=10')],
    });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe('stop');
  });

  test('a stream has no usage unless it is requested', async () => {
    const stream = await client.chat.completions.create({ model: payg, messages: [user('Hello')], stream: true });
    for await (const chunk of stream) expect(chunk).not.toHaveProperty('usage');
  });

  test.each([false, true])('n returns that many choices, with indices from 0 (stream: %s)', async streamed => {
    const body = { model: payg, messages: [user('Name a colour.\n!sim tokens=12')], n: 3 };
    const answer = streamed
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.create(body);
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(answer.choices.every(({ message }) => (message.content ?? '') !== '')).toBe(true);
  });

  test('each of n choices is charged once, and the prompt once per upstream call', async () => {
    const ask = (n: number) =>
      client.chat.completions.create({ model: payg, messages: [user('Name a colour.\n!sim tokens=12')], n });
    const [one, three] = [(await ask(1)).usage, (await ask(3)).usage];
    expect([one?.completion_tokens, three?.completion_tokens]).toEqual([12, 36]);
    const input = (usage: typeof one): number => usage?.prompt_tokens ?? 0;
    expect(input(three)).toBe(input(one) * (lacksChoices ? 3 : 1));
  });

  if (!isMessages)
    test.each([false, true])('logprobs cover the text token by token (stream: %s)', async streamed => {
      const body = {
        model: payg,
        messages: [user('Hi\n!sim say=Good morning to you')],
        logprobs: true,
        top_logprobs: 3,
      };
      const answer = streamed
        ? await client.chat.completions.stream(body).finalChatCompletion()
        : await client.chat.completions.create(body);
      const tokens = answer.choices[0]?.logprobs?.content ?? [];
      expect(tokens.map(({ token }) => token).join('')).toBe('Good morning to you');
      expect(tokens.every(({ top_logprobs }) => top_logprobs.length === 3)).toBe(true);
      expect(tokens.every(({ logprob }) => logprob <= 0)).toBe(true);
    });

  test.each([false, true])('stop ends the text before the sequence (stream: %s)', async streamed => {
    const body = { model: payg, messages: [user('Count\n!sim say=one two three four')], stop: [' three', 'never'] };
    const answer = streamed
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.create(body);
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'one two' } });
  });

  test.each([false, true])('max_completion_tokens ends the text with finish length (stream: %s)', async streamed => {
    const body = { model: payg, messages: [user('Write a long text.')], max_completion_tokens: 25 };
    const answer = streamed
      ? await client.chat.completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await client.chat.completions.create(body);
    expect(answer.choices[0]?.finish_reason).toBe('length');
    expect(answer.usage?.completion_tokens).toBe(25);
  });

  test('with reasoning_effort there are reasoning tokens, without it none', async () => {
    const body = { model: payg, messages: [user('What is 17 times 23?')] };
    const reasoned = await client.chat.completions.create({ ...body, reasoning_effort: 'medium' });
    const plain = await client.chat.completions.create(body);
    expect(reasoned.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    expect(plain.usage?.completion_tokens_details?.reasoning_tokens).toBe(0);
    expect(reasoned.choices[0]?.message).toHaveProperty('reasoning_content');
  });

  test('service_tier flex is returned in the response and costs half', async () => {
    const body = { model: payg, messages: [user('Hello\n!sim tokens=50')] };
    const [standard, flex] = await Promise.all([
      client.chat.completions.create(body),
      client.chat.completions.create({ ...body, service_tier: 'flex' }),
    ]);
    expect([standard.service_tier, flex.service_tier]).toEqual(['default', 'flex']);
    const cost = (answer: OpenAI.ChatCompletion): number => (answer.usage as unknown as { cost: number }).cost;
    expect(cost(flex)).toBeCloseTo(cost(standard) / 2, 9);
  });
});

describe('tools', () => {
  const cities = ['Paris', 'Oslo', 'Rome'];

  test.each([false, true])('runTools runs parallel calls and ends with text (stream: %s)', async streamed => {
    const inputs: { city: string; unit: string }[] = [];
    const tool = {
      type: 'function' as const,
      function: {
        name: 'get_weather',
        description: 'The weather of a city',
        parse: (text: string) => JSON.parse(text) as { city: string; unit: string },
        function: (input: { city: string; unit: string }) => {
          inputs.push(input);
          return `Sunny in ${input.city}`;
        },
        parameters: weather.type === 'function' ? (weather.function.parameters ?? {}) : {},
      },
    };
    const body = {
      model: payg,
      messages: [user(`What is the weather in ${cities.join(', ')}?\n!sim calls=3`)],
      tools: [tool],
    };
    const runner = streamed
      ? client.chat.completions.runTools({ ...body, stream: true })
      : client.chat.completions.runTools(body);
    const text = await runner.finalContent();
    expect(inputs).toHaveLength(3);
    expect(inputs.every(({ unit }) => unit === 'celsius' || unit === 'fahrenheit')).toBe(true);
    const roles = runner.messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'tool', 'tool', 'assistant']);
    expect(text).toContain('Sunny');
  });

  test('arguments of strict zod tools are parsed, in the stream helper too', async () => {
    const tool = zodFunction({
      name: 'book_table',
      description: 'Books a table at a restaurant',
      parameters: z.object({
        guests: z.number().int().min(1).max(12),
        name: z.string(),
        outside: z.boolean().nullable(),
      }),
    });
    const body = { model: payg, messages: [user('Book a table for 4 in the name of Ada.')], tools: [tool] };
    const parsed = await client.chat.completions.parse(body);
    const call = parsed.choices[0]?.message.tool_calls?.[0];
    expect(parsed.choices[0]?.finish_reason).toBe('tool_calls');
    expect(call).toMatchObject({
      type: 'function',
      function: { name: 'book_table', parsed_arguments: { guests: expect.any(Number), name: expect.any(String) } },
    });
    const stream = client.chat.completions.stream(body);
    const events: unknown[] = [];
    stream.on('tool_calls.function.arguments.done', event => events.push(event));
    const final = await stream.finalChatCompletion();
    expect(events).toHaveLength(final.choices[0]?.message.tool_calls?.length ?? 0);
    expect(events[0]).toMatchObject({ name: 'book_table', index: 0, parsed_arguments: { guests: expect.any(Number) } });
  });

  test('tool_choice: required and a named function cause a call, none prevents it', async () => {
    const body = { model: payg, messages: [user('Hello there.')], tools: [weather] };
    const required = await client.chat.completions.create({ ...body, tool_choice: 'required' });
    const named = await client.chat.completions.create({
      ...body,
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
    });
    const none = await client.chat.completions.create({ ...body, tool_choice: 'none' });
    expect(required.choices[0]?.message.tool_calls).toHaveLength(1);
    expect(named.choices[0]?.message.tool_calls).toHaveLength(1);
    expect(none.choices[0]?.message.tool_calls).toBeUndefined();
    expect(none.choices[0]?.finish_reason).toBe('stop');
  });

  test('parallel_tool_calls false makes one call at most', async () => {
    const answer = await client.chat.completions.create({
      model: payg,
      messages: [user(`The weather in ${cities.join(', ')}, please.\n!sim calls=3`)],
      tools: [weather],
      parallel_tool_calls: false,
    });
    expect(answer.choices[0]?.message.tool_calls).toHaveLength(1);
  });

  test('a custom tool is called with free text', async () => {
    const body = {
      model: payg,
      messages: [user('Run the shell command for the date.')],
      tools: [{ type: 'custom' as const, custom: { name: 'shell', description: 'Runs a shell command' } }],
      tool_choice: 'required' as const,
    };
    const whole = await client.chat.completions.create(body);
    const streamed = await client.chat.completions.stream(body).finalChatCompletion();
    for (const answer of [whole, streamed]) {
      expect(answer.choices[0]?.message.tool_calls?.[0]).toMatchObject({
        type: 'custom',
        custom: { name: 'shell', input: expect.any(String) },
      });
    }
  });
});

describe('structured output and images', () => {
  const Recipe = z.object({
    name: z.string(),
    minutes: z.number().int(),
    steps: z.array(z.object({ text: z.string(), tool: z.enum(['pan', 'oven']).nullable() })),
  });

  test('parse returns a value that matches the zod schema', async () => {
    const answer = await client.chat.completions.parse({
      model: payg,
      messages: [user('A recipe for pancakes.')],
      response_format: zodResponseFormat(Recipe, 'recipe'),
    });
    expect(Recipe.safeParse(answer.choices[0]?.message.parsed).success).toBe(true);
  });

  test('the stream helper parses partial and complete text', async () => {
    const stream = client.chat.completions.stream({
      model: payg,
      messages: [user('A recipe for bread.')],
      response_format: zodResponseFormat(Recipe, 'recipe'),
    });
    let partial = 0;
    stream.on('content.delta', ({ parsed }) => (partial += parsed === null ? 0 : 1));
    const final = await stream.finalChatCompletion();
    expect(partial).toBeGreaterThan(0);
    expect(Recipe.safeParse(final.choices[0]?.message.parsed).success).toBe(true);
  });

  test('if the token limit cuts structured output, the client raises LengthFinishReasonError', async () => {
    const cut = client.chat.completions.parse({
      model: payg,
      messages: [user('A recipe for stew.')],
      response_format: zodResponseFormat(Recipe, 'recipe'),
      max_completion_tokens: 3,
    });
    await expect(cut).rejects.toThrow(LengthFinishReasonError);
  });

  if (!isMessages)
    test('json_object returns a JSON object', async () => {
      const answer = await client.chat.completions.create({
        model: payg,
        messages: [user('Describe a cat as JSON.')],
        response_format: { type: 'json_object' },
      });
      expect(JSON.parse(answer.choices[0]?.message.content ?? '')).toBeTypeOf('object');
    });

  test('the model sees the size and colour of an image', async () => {
    const answer = await client.chat.completions.create({
      model: payg,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is in this image?' },
            { type: 'image_url', image_url: { url: await makePngUrl(64, 48, '#ff0000'), detail: 'low' } },
          ],
        },
      ],
    });
    expect(answer.choices[0]?.message.content).toMatch(/64\s*[x×]\s*48/);
    expect(answer.choices[0]?.message.content).toMatch(/red/i);
  });
});

describe('aborts', () => {
  test('if a stream is abandoned, what was delivered is charged within 3 s', async () => {
    const { data: stream, request_id } = await client.chat.completions
      .create({ model: payg, messages: [user('Go on\n!sim tokens=4000 tps=100')], stream: true })
      .withResponse();
    let seen = 0;
    for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '') !== '' && ++seen === 10) break;
    const left = performance.now();
    const record = await readRecord(gateway, request_id ?? '');
    expect(performance.now() - left).toBeLessThan(3_000);
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    const output = Number(record.usage?.outputTokens ?? 0);
    expect(output).toBeGreaterThanOrEqual(10);
    expect(output).toBeLessThan(400);
    expect(record.costNanoUsd).toBeGreaterThan(0n);
  });

  test('abort() of the stream helper raises APIUserAbortError', async () => {
    const stream = client.chat.completions.stream({ model: payg, messages: [user('Go on\n!sim tokens=4000 tps=100')] });
    stream.once('content', () => stream.abort());
    await expect(stream.finalChatCompletion()).rejects.toThrow(OpenAI.APIUserAbortError);
  });

  test('the client’s timeout ends a request that is not streamed', async () => {
    const late = client.chat.completions.create(
      { model: payg, messages: [user('Hello\n!sim delay_ms=20000')] },
      { timeout: 300, maxRetries: 0 },
    );
    await expect(late).rejects.toThrow(OpenAI.APIConnectionTimeoutError);
  });
});

describe('errors', () => {
  const body = { model: payg, messages: [user('Hello')] };
  const catchFailure = async (request: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> => {
    const failure = await request.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(OpenAI.APIError);
    return failure as InstanceType<typeof OpenAI.APIError>;
  };

  test('AuthenticationError: an unknown key', async () => {
    const failure = await catchFailure(makeClient({ apiKey: `sk-tg-${'x'.repeat(43)}` }).chat.completions.create(body));
    expect(failure).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(failure).toMatchObject({ status: 401, code: 'invalid_api_key', type: 'authentication_error' });
    expect(failure.requestID).toMatch(/^req_/);
  });

  test('PermissionDeniedError: a model outside allowed_models, a disabled key, a management key', async () => {
    const narrow = await makeKey(gateway, { allowedModels: { models: [] } });
    const disabled = await makeKey(gateway);
    expect((await gateway.cli(['keys', 'disable', String(disabled.id)])).code).toBe(0);
    const failures = await Promise.all(
      [narrow.key, disabled.key, gateway.managementKey].map(apiKey =>
        catchFailure(makeClient({ apiKey }).chat.completions.create(body)),
      ),
    );
    expect(failures.every(failure => failure instanceof OpenAI.PermissionDeniedError)).toBe(true);
    expect(failures.map(({ code }) => code)).toEqual(['model_not_allowed', 'key_disabled', 'permission_denied']);
  });

  test('BadRequestError: an unknown model', async () => {
    const failure = await catchFailure(client.chat.completions.create({ ...body, model: 'acme/unknown' }));
    expect(failure).toBeInstanceOf(OpenAI.BadRequestError);
    expect(failure).toMatchObject({
      status: 400,
      code: 'model_not_found',
      param: 'model',
      type: 'invalid_request_error',
    });
  });

  test('UnprocessableEntityError: a value out of range', async () => {
    const failure = await catchFailure(client.chat.completions.create({ ...body, temperature: 3 }));
    expect(failure).toBeInstanceOf(OpenAI.UnprocessableEntityError);
    expect(failure).toMatchObject({ status: 422, code: 'validation_error', param: 'temperature' });
  });

  test('RateLimitError: an empty balance, which is not retried', async () => {
    const { key } = await makeKey(gateway, { balanceNanoUsd: 0n });
    sent.requests = 0;
    const failure = await catchFailure(makeClient({ apiKey: key }).chat.completions.create(body));
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError);
    expect(failure).toMatchObject({ status: 429, code: 'insufficient_balance', type: 'rate_limit_error' });
    expect(failure.headers?.get('x-should-retry')).toBe('false');
    expect(sent.requests).toBe(1);
  });

  test('RateLimitError: a full minute window, with the time until a retry', async () => {
    const { key } = await makeKey(gateway, { minuteLimit: 1n });
    const limited = makeClient({ apiKey: key, maxRetries: 0 });
    await limited.chat.completions.create(body);
    const failure = await catchFailure(limited.chat.completions.create(body));
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError);
    expect(failure).toMatchObject({ status: 429, code: 'rate_limit' });
    expect(failure.headers?.get('x-should-retry')).not.toBe('false');
    const wait = Number(failure.headers?.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(61);
    expect(failure.headers?.get('x-ratelimit-limit-requests')).toBe('1');
    expect(failure.headers?.get('x-ratelimit-remaining-requests')).toBe('0');
  });

  test('InternalServerError: a failing upstream, retried by the client as often as maxRetries allows', async () => {
    sent.requests = 0;
    const failure = await catchFailure(
      makeClient({ maxRetries: 1 }).chat.completions.create({ ...body, messages: [user('Hello\n!sim status=503')] }),
    );
    expect(failure).toBeInstanceOf(OpenAI.InternalServerError);
    expect(failure).toMatchObject({ status: 502, code: 'upstream_error', type: 'upstream_error' });
    expect(sent.requests).toBe(2);
  });

  test('a stream that fails in the middle delivers its beginning, then raises APIError with the code', async () => {
    const stream = await client.chat.completions.create({
      ...body,
      messages: [user('Hello\n!sim tokens=100 fail=5')],
      stream: true,
    });
    let seen = 0;
    const read = async (): Promise<void> => {
      for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '') !== '') seen += 1;
    };
    const failure = await catchFailure(read());
    expect(failure).toMatchObject({ code: 'upstream_error', type: 'upstream_error' });
    expect(seen).toBe(5);
  });

  test('the stream helper rejects with the same error', async () => {
    const stream = client.chat.completions.stream({ ...body, messages: [user('Hello\n!sim tokens=100 cut=5')] });
    const failure = await catchFailure(stream.finalChatCompletion());
    expect(failure).toMatchObject({ code: 'upstream_error' });
  });
});
