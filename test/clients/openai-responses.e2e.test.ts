/** Conversations of the official `openai` client over Responses with a running gateway. Ids like LI-08 name cases of `test/translation/cases.json`. */
import OpenAI, { type ClientOptions } from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import type {
  FunctionTool,
  Response,
  ResponseFunctionToolCall,
  ResponseInput,
  ResponseOutputMessage,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { payg } from '../e2e/chat-client.ts';
import { makePngUrl } from '../e2e/sample-image.ts';
import { readBalance, readRecord } from '../gateway.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
const gateway = await startTarget();
afterAll(() => endTarget(gateway));

/** Messages upstreams have no log probabilities, and no JSON mode without a schema except by instruction. */
const isMessages = upstream === 'messages';

const makeClient = (options: ClientOptions = {}): OpenAI =>
  new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey, maxRetries: 0, ...options });
const client = makeClient();

const weather: FunctionTool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  strict: true,
};

const readCalls = ({ output }: Response): ResponseFunctionToolCall[] =>
  output.filter(item => item.type === 'function_call');
const readMessages = ({ output }: Response): ResponseOutputMessage[] => output.filter(item => item.type === 'message');

/** Sends a request as a stream, and returns the final response and all events. */
async function streamed(
  body: Parameters<typeof client.responses.stream>[0],
): Promise<{ events: ResponseStreamEvent[]; final: Response }> {
  const stream = client.responses.stream(body);
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return { events, final: await stream.finalResponse() };
}

/** Sends a request, whole or streamed, and returns the response. */
async function answered(body: OpenAI.Responses.ResponseCreateParams, isStreamed: boolean): Promise<Response> {
  if (!isStreamed) return client.responses.create({ ...body, stream: false });
  return (await streamed({ ...body } as Parameters<typeof client.responses.stream>[0])).final;
}

describe('text', () => {
  test('create answers a conversation of items, with usage and cost that add up', async () => {
    const before = await readBalance(gateway);
    const { data, response, request_id } = await client.responses
      .create({
        model: payg,
        instructions: 'You are brief.',
        input: [
          { role: 'user', content: 'What is a toll gate?' },
          { role: 'assistant', content: 'A barrier where one pays.' },
          { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Answer in English.' }] },
          { role: 'user', content: [{ type: 'input_text', text: 'And who pays?' }] },
        ],
        metadata: { trace: 'a' },
      })
      .withResponse();
    expect(data).toMatchObject({
      id: `resp_${request_id?.slice('req_'.length)}`,
      object: 'response',
      status: 'completed',
      model: payg,
      instructions: 'You are brief.',
      metadata: { trace: 'a' },
      previous_response_id: null,
      error: null,
      incomplete_details: null,
      service_tier: 'default',
    });
    expect(readMessages(data)).toMatchObject([{ role: 'assistant', status: 'completed', phase: 'final_answer' }]);
    expect(data.output_text).not.toBe('');
    expect(data.completed_at).toBeGreaterThanOrEqual(data.created_at);
    const { usage } = data;
    expect(usage?.total_tokens).toBe((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0));
    const cost = Number(response.headers.get('x-tollgate-cost'));
    expect(usage).toMatchObject({ cost });
    expect(cost).toBeGreaterThan(0);
    expect(before - (await readBalance(gateway))).toBe(BigInt(Math.round(cost * 1e9)));
  });

  test('the response has the requested settings, and defaults for the others', async () => {
    const body = {
      model: payg,
      input: 'Hi\n!sim say=ok',
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 100,
      parallel_tool_calls: false,
      tools: [weather],
      tool_choice: 'none',
      truncation: 'auto',
      text: { verbosity: 'low' },
      prompt_cache_key: 'k',
      store: false,
    } as const;
    const called = await client.responses.create({ ...body, tools: [...body.tools] });
    const { model: _, input: __, text, ...echoed } = body;
    expect(called).toMatchObject({ ...echoed, text: { format: { type: 'text' }, ...text } });
    const plain = await client.responses.create({ model: payg, input: 'Hi\n!sim say=ok' });
    expect(plain).toMatchObject({
      temperature: 1,
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      top_logprobs: 0,
      max_output_tokens: null,
      max_tool_calls: null,
      parallel_tool_calls: true,
      tools: [],
      tool_choice: 'auto',
      truncation: 'disabled',
      text: { format: { type: 'text' } },
      reasoning: null,
      store: true,
      background: false,
      prompt_cache_key: null,
      safety_identifier: null,
      metadata: {},
    });
  });

  test('the stream helper’s final response has the streamed content, and the events have consecutive numbers', async () => {
    const { events, final } = await streamed({ model: payg, input: 'Write about bridges.\n!sim tokens=300' });
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
    expect(events.slice(0, 4).map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
    ]);
    expect(events.slice(-4).map(({ type }) => type)).toEqual([
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const deltas = events.filter(event => event.type === 'response.output_text.delta');
    expect(deltas.length).toBeGreaterThan(20);
    expect(deltas.map(({ delta }) => delta).join('')).toBe(final.output_text);
    expect(final.usage?.output_tokens).toBe(300);
    const [last] = events.slice(-1);
    expect(last?.type === 'response.completed' && last.response.output).toEqual(
      events.filter(event => event.type === 'response.output_item.done').map(({ item }) => item),
    );
  });

  test('SS-13: keep-alive comments in a quiet stream do not break the client', async () => {
    const { final } = await streamed({ model: payg, input: 'Hi\n!sim delay_ms=300 tokens=6 tps=10' });
    expect(final.status).toBe('completed');
  });

  test.each([false, true])('the output limit makes the response incomplete (stream: %s)', async isStreamed => {
    const body = { model: payg, input: 'Write a long text.', max_output_tokens: 20 };
    const final = await answered(body, isStreamed);
    expect(final).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect(final.usage?.output_tokens).toBe(20);
    expect(final.completed_at).toBeNull();
  });

  test.each([false, true])('a refusal is incomplete for content_filter (stream: %s)', async isStreamed => {
    const final = await answered({ model: payg, input: 'Hi\n!sim finish=refusal' }, isStreamed);
    expect(final).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'content_filter' } });
  });

  if (!isMessages)
    test.each([false, true])('logprobs cover the text token by token (stream: %s)', async isStreamed => {
      const final = await answered(
        {
          model: payg,
          input: 'Hi\n!sim say=Good morning to you',
          include: ['message.output_text.logprobs'],
          top_logprobs: 3,
        },
        isStreamed,
      );
      const [part] = readMessages(final)[0]?.content ?? [];
      const tokens = part?.type === 'output_text' ? (part.logprobs ?? []) : [];
      expect(tokens.map(({ token }) => token).join('')).toBe('Good morning to you');
      expect(tokens.every(({ top_logprobs: top }) => top.length === 3)).toBe(true);
    });

  test.each([false, true])('reasoning comes as a summary before the text (stream: %s)', async isStreamed => {
    const final = await answered(
      { model: payg, input: 'What is 17 times 23?', reasoning: { effort: 'medium', summary: 'auto' } },
      isStreamed,
    );
    expect(final.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    const [reasoning] = final.output;
    expect(reasoning?.type === 'reasoning' && reasoning.summary.map(({ text }) => text).join('')).not.toBe('');
    expect(final.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(final.reasoning).toEqual({ effort: 'medium', summary: 'auto' });
  });

  test('service_tier flex is in the response and costs half', async () => {
    const body = { model: payg, input: 'Hello\n!sim tokens=50' };
    const [standard, flex] = await Promise.all([
      client.responses.create(body),
      client.responses.create({ ...body, service_tier: 'flex' }),
    ]);
    expect([standard.service_tier, flex.service_tier]).toEqual(['default', 'flex']);
    const readCost = (answer: Response): number => (answer.usage as unknown as { cost: number }).cost;
    expect(readCost(flex)).toBeCloseTo(readCost(standard) / 2, 9);
  });
});

describe('tools', () => {
  const question = 'What is the weather in Paris and Oslo?\n!sim calls=2';

  test.each([false, true])('calls and their outputs are sent on as items (stream: %s)', async isStreamed => {
    const input: ResponseInput = [{ role: 'user', content: question }];
    const called = await answered({ model: payg, input, tools: [weather] }, isStreamed);
    const calls = readCalls(called);
    expect(calls).toHaveLength(2);
    expect(calls.every(call => 'city' in (JSON.parse(call.arguments) as object))).toBe(true);
    const outputs = calls.map(call => ({
      type: 'function_call_output' as const,
      call_id: call.call_id,
      output: `Sunny in ${(JSON.parse(call.arguments) as { city: string }).city}`,
    }));
    const final = await answered(
      { model: payg, input: [...input, ...(called.output as ResponseInput), ...outputs], tools: [weather] },
      isStreamed,
    );
    expect(readCalls(final)).toEqual([]);
    expect(final.output_text).toContain('Sunny');
  });

  test('text before calls has the phase commentary, text without calls is the final answer', async () => {
    const { events, final } = await streamed({
      model: payg,
      input: 'The weather in Paris?\n!sim calls=1 say=Let me look.',
      tools: [weather],
    });
    expect(final.output.map(({ type }) => type)).toEqual(['message', 'function_call']);
    expect(readMessages(final)).toMatchObject([{ phase: 'commentary' }]);
    const [added] = events.filter(event => event.type === 'response.output_item.added');
    expect(added?.item).not.toHaveProperty('phase');
    const order = events.filter(({ type }) => type.startsWith('response.output_item')).map(({ type }) => type);
    expect(order).toEqual([
      'response.output_item.added',
      'response.output_item.done',
      'response.output_item.added',
      'response.output_item.done',
    ]);
  });

  test('strict zod tools arrive parsed, in the stream helper too', async () => {
    const tool = zodResponsesFunction({
      name: 'book_table',
      description: 'Books a table at a restaurant',
      parameters: z.object({ guests: z.number().int().min(1).max(12), name: z.string() }),
    });
    const body = { model: payg, input: 'Book a table for 4 in the name of Ada.', tools: [tool] };
    const parsed = await client.responses.parse(body);
    const stream = client.responses.stream(body);
    for (const response of [parsed, await stream.finalResponse()]) {
      const [call] = response.output.filter(item => item.type === 'function_call');
      expect(call).toMatchObject({
        name: 'book_table',
        parsed_arguments: { guests: expect.any(Number), name: expect.any(String) },
      });
    }
  });

  test('tool_choice required, a named tool and allowed tools cause a call, none prevents it', async () => {
    const other: FunctionTool = { ...weather, name: 'get_time', description: 'The time in a city' };
    const body = { model: payg, input: 'Hello there.', tools: [other, weather] };
    const required = await client.responses.create({ ...body, tool_choice: 'required' });
    const named = await client.responses.create({ ...body, tool_choice: { type: 'function', name: 'get_weather' } });
    const none = await client.responses.create({ ...body, tool_choice: 'none' });
    const choice = {
      type: 'allowed_tools' as const,
      mode: 'required' as const,
      tools: [{ type: 'function', name: 'get_weather' }],
    };
    const allowed = await client.responses.create({ ...body, tool_choice: choice });
    expect(readCalls(required)).toHaveLength(1);
    expect(readCalls(named).map(({ name }) => name)).toEqual(['get_weather']);
    expect(readCalls(allowed).map(({ name }) => name)).toEqual(['get_weather']);
    expect(allowed.tool_choice).toEqual(choice);
    expect(readCalls(none)).toEqual([]);
  });

  test('parallel_tool_calls false and max_tool_calls are enforced if the upstream ignores them', async () => {
    const ignoring = 'What is the weather in Paris, Oslo and Rome?\n!sim calls=3 ignore=parallel,max_tool_calls';
    const one = await client.responses.create({
      model: payg,
      input: ignoring,
      tools: [weather],
      parallel_tool_calls: false,
    });
    const two = await client.responses.create({ model: payg, input: ignoring, tools: [weather], max_tool_calls: 2 });
    expect([readCalls(one).length, readCalls(two).length]).toEqual([1, 2]);
    expect(two.max_tool_calls).toBe(2);
  });

  test.each([false, true])(
    'a custom tool is called with free text, and its output is accepted (stream: %s)',
    async isStreamed => {
      const tools = [{ type: 'custom' as const, name: 'shell', description: 'Runs a shell command' }];
      const input: ResponseInput = [{ role: 'user', content: 'Run the shell command for the date.\n!sim calls=1' }];
      const called = await answered({ model: payg, input, tools }, isStreamed);
      const [call] = called.output.filter(item => item.type === 'custom_tool_call');
      expect(call).toMatchObject({ name: 'shell', input: expect.any(String), call_id: expect.any(String) });
      const output = {
        type: 'custom_tool_call_output' as const,
        call_id: call?.call_id ?? '',
        output: 'Sat Nov 21',
      };
      const final = await answered(
        { model: payg, input: [...input, ...(called.output as ResponseInput), output], tools },
        isStreamed,
      );
      expect(final.output_text).toContain('Sat Nov 21');
    },
  );
});

describe('reasoning', () => {
  const tools = [weather];
  const asking = {
    model: payg,
    tools,
    reasoning: { effort: 'low' as const, summary: 'auto' as const },
    include: ['reasoning.encrypted_content' as const],
    store: false,
  };
  const question: ResponseInput = [{ role: 'user', content: 'The weather in Paris?\n!sim calls=1' }];
  const outputsFor = (called: Response): ResponseInput =>
    readCalls(called).map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: 'Sunny' }));

  test.each([false, true])(
    'is returned encrypted, and sent back with the calls that follow it (stream: %s)',
    async isStreamed => {
      const called = await answered({ ...asking, input: question }, isStreamed);
      const [reasoning] = called.output;
      expect(reasoning).toMatchObject({ type: 'reasoning', encrypted_content: expect.stringMatching(/^tg1\./) });
      const input = [...question, ...(called.output as ResponseInput), ...outputsFor(called)];
      const { data, response } = await client.responses.create({ ...asking, input }).withResponse();
      expect(data.output_text).toContain('Sunny');
      // Nothing of the reasoning items was dropped.
      expect(response.headers.get('x-tollgate-warnings') ?? '').not.toContain('input');
    },
  );

  test('is encrypted only on request, and encrypted reasoning that was changed is refused', async () => {
    const plain = await client.responses.create({ ...asking, include: [], input: question });
    expect(plain.output[0]).not.toHaveProperty('encrypted_content');
    const called = await client.responses.create({ ...asking, input: question });
    const changed = called.output.map(item =>
      item.type === 'reasoning' ? { ...item, encrypted_content: `${item.encrypted_content ?? ''}A` } : item,
    );
    const input = [...question, ...(changed as ResponseInput), ...outputsFor(called)];
    const failure = await client.responses.create({ ...asking, input }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 400 });
  });
});

describe('structured output, images and files', () => {
  const Recipe = z.object({ name: z.string(), minutes: z.number().int(), steps: z.array(z.string()) });

  test('parse with a zod schema returns a matching value, whole and streamed', async () => {
    const body = { model: payg, input: 'A recipe for pancakes.', text: { format: zodTextFormat(Recipe, 'recipe') } };
    const whole = await client.responses.parse(body);
    expect(Recipe.safeParse(whole.output_parsed).success).toBe(true);
    const stream = await client.responses.stream(body).finalResponse();
    expect(Recipe.safeParse(stream.output_parsed).success).toBe(true);
  });

  if (!isMessages)
    test('json_object returns a JSON object', async () => {
      const answer = await client.responses.create({
        model: payg,
        input: 'Describe a cat as JSON.',
        text: { format: { type: 'json_object' } },
      });
      expect(JSON.parse(answer.output_text)).toBeTypeOf('object');
    });

  test('the model sees the size and colour of an image', async () => {
    const answer = await client.responses.create({
      model: payg,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is in this image?' },
            { type: 'input_image', image_url: await makePngUrl(64, 48, '#ff0000'), detail: 'low' },
          ],
        },
      ],
    });
    expect(answer.output_text).toMatch(/64\s*[x×]\s*48/);
    expect(answer.output_text).toMatch(/red/i);
  });
});

describe('the end of an answer', () => {
  test('if a stream is abandoned, what was delivered is charged', async () => {
    const { data: stream, request_id } = await client.responses
      .create({ model: payg, input: 'Go on\n!sim tokens=4000 tps=100', stream: true, store: false })
      .withResponse();
    let seen = 0;
    for await (const event of stream) if (event.type === 'response.output_text.delta' && ++seen === 10) break;
    const record = await readRecord(gateway, request_id ?? '');
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    const output = Number(record.usage?.outputTokens ?? 0);
    expect(output).toBeGreaterThanOrEqual(10);
    expect(output).toBeLessThan(4_000);
  });

  const catchFailure = async (request: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> => {
    const failure = await request.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(OpenAI.APIError);
    return failure as InstanceType<typeof OpenAI.APIError>;
  };

  test.each([
    [{ model: 'acme/unknown' }, { status: 400, code: 'model_not_found', param: 'model' }],
    [{ temperature: 3 }, { status: 422, code: 'validation_error', param: 'temperature' }],
    [{ max_output_tokens: 15 }, { status: 422, code: 'validation_error', param: 'max_output_tokens' }],
    [{ max_tool_calls: 0 }, { status: 422, param: 'max_tool_calls' }],
    [{ prompt_cache_key: 'k'.repeat(65) }, { status: 422, param: 'prompt_cache_key' }],
    [{ top_logprobs: 21 }, { status: 422, param: 'top_logprobs' }],
    [{ input: [{ role: 'nobody', content: 'x' }] }, { status: 400, param: expect.any(String) }],
    [{ input: [] }, { status: 422, param: 'input' }],
    [{ conversation: 'conv_1' }, { status: 404, code: 'not_found', param: 'conversation' }],
    [{ prompt: { id: 'p' } }, { status: 400, code: 'unsupported_parameter', param: 'prompt' }],
    [
      { model: 'sim/no-tools', tools: [weather] },
      { status: 400, param: expect.any(String) },
    ],
    [
      { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] },
      // A Responses upstream checks this itself.
      { status: 400, code: expect.stringMatching(/^(unsupported_parameter|upstream_rejected)$/), param: 'input' },
    ],
  ])('%j is refused', async (change, expected) => {
    const body = { model: payg, input: 'Hello', ...change } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    expect(await catchFailure(client.responses.create(body))).toMatchObject(expected);
  });

  test.each([{ include: ['web_search_call.results'] }, { truncation: 'oldest' }])(
    '%j has an unknown value, which is accepted',
    async change => {
      const body = { model: payg, input: 'Hello', ...change } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
      expect((await client.responses.create(body)).status).toBe('completed');
    },
  );

  test('an upstream that fails before any output is an HTTP error', async () => {
    const failure = await catchFailure(client.responses.create({ model: payg, input: 'Hello\n!sim status=503' }));
    expect(failure).toBeInstanceOf(OpenAI.InternalServerError);
    expect(failure).toMatchObject({ status: 502, code: 'upstream_error', type: 'upstream_error' });
  });

  test('a stream that fails after a keep-alive comment raises the same error', async () => {
    const body = { model: payg, input: 'Hello\n!sim delay_ms=200 status=503' };
    const helper = client.responses.stream(body);
    expect(await catchFailure(helper.finalResponse())).toMatchObject({
      code: 'upstream_error',
      type: 'upstream_error',
    });
  });

  /** Sends a request that succeeds: failures in a row would open the circuit breaker of the route. */
  const closeBreaker = async (): Promise<void> => {
    expect((await client.responses.create({ model: payg, input: 'Hello\n!sim say=ok' })).status).toBe('completed');
  };

  test.each(['fail', 'cut'])(
    'a stream that breaks (%s) raises APIError with the code, after the delivered part',
    async how => {
      await closeBreaker();
      const stream = await client.responses.create({
        model: payg,
        input: `Hello\n!sim tokens=100 ${how}=5`,
        stream: true,
      });
      let seen = 0;
      const read = async (): Promise<void> => {
        for await (const event of stream) if (event.type === 'response.output_text.delta') seen += 1;
      };
      expect(await catchFailure(read())).toMatchObject({ code: 'upstream_error', type: 'upstream_error' });
      expect(seen).toBe(5);
      const helper = client.responses.stream({ model: payg, input: `Hello\n!sim tokens=100 ${how}=5` });
      expect(await catchFailure(helper.finalResponse())).toMatchObject({ code: 'upstream_error' });
    },
  );

  test('LI-08: the frames of a broken stream: open items are closed, then error, response.failed and [DONE]', async () => {
    await closeBreaker();
    const answer = await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: payg, input: 'Hello\n!sim tokens=100 fail=5', stream: true }),
    });
    const text = (await answer.text()).replaceAll(/^:.*\n/gm, '');
    const frames = text.split('\n\n').filter(frame => frame.startsWith('event:'));
    const last = frames.slice(-5).map(frame => frame.slice('event: '.length, frame.indexOf('\n')));
    expect(last).toEqual([
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'error',
      'response.failed',
    ]);
    const [error, failed] = frames
      .slice(-2)
      .map(frame => JSON.parse(frame.slice(frame.indexOf('data: ') + 6)) as Failed);
    expect(error).toMatchObject({ code: 'upstream_error', error: { type: 'upstream_error', code: 'upstream_error' } });
    expect(failed?.response).toMatchObject({ status: 'failed', error: { code: 'upstream_error' } });
    expect(failed?.response?.output).toMatchObject([{ type: 'message', status: 'incomplete' }]);
  });
});

interface Failed {
  readonly response?: { readonly output: readonly object[] };
}
