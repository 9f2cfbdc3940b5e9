/** Conversations of the official `@anthropic-ai/sdk`, of the current and the previous major version, with a running gateway. Ids like HD-06 name cases of `test/translation/cases.json`. */
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import Anthropic0 from 'anthropic-0x';
import { afterAll, describe, expect, test } from 'vitest';
import { payg } from '../e2e/chat-client.ts';
import { makePng } from '../e2e/sample-image.ts';
import { readBalance, makeKey } from '../gateway.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
/** Chat and Gemini have no cache hints, and do not report which stop sequence matched. */
const lacksHints = upstream === 'chat' || upstream === 'gemini';

const gateway = await startTarget();
afterAll(() => endTarget(gateway));

/** The number of HTTP requests that clients have sent, retries included, and the headers of the last one. */
const sent: { requests: number; headers: Headers } = { requests: 0, headers: new Headers() };
const counting = (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
  sent.requests += 1;
  sent.headers = new Headers(init?.headers);
  return fetch(input, init);
};
interface ClientSettings {
  readonly apiKey?: string;
  readonly maxRetries?: number;
}
function makeClient(settings: ClientSettings = {}): Anthropic {
  return new Anthropic({ baseURL: gateway.url, apiKey: gateway.apiKey, fetch: counting, ...settings });
}
/** Makes a client of the previous major version; its types differ only in parts that these conversations do not use. */
function makePreviousClient(settings: ClientSettings = {}): Anthropic {
  const client = new Anthropic0({ baseURL: gateway.url, apiKey: gateway.apiKey, fetch: counting, ...settings });
  return client as unknown as Anthropic;
}
const client = makeClient();

const user = (content: string): { role: 'user'; content: string } => ({ role: 'user', content });
const weather = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: {
    type: 'object' as const,
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city', 'unit'],
  },
};
const readText = (message: Anthropic.Message): string =>
  message.content.map(block => (block.type === 'text' ? block.text : '')).join('');

describe.each([
  { version: 'this major', make: makeClient, header: 'authorization' },
  { version: 'the previous major', make: makePreviousClient, header: 'x-api-key' },
])('$version', ({ make, header }) => {
  const one = make();

  test('create answers a conversation; its usage has all fields and its cost is what was debited', async () => {
    const before = await readBalance(gateway);
    const { data, response, request_id } = await one.messages
      .create({
        model: payg,
        max_tokens: 500,
        system: 'You are brief.',
        messages: [
          user('What is a toll gate?'),
          { role: 'assistant', content: 'A barrier where one pays.' },
          user('And who pays?\n!sim tokens=30'),
        ],
      })
      .withResponse();
    expect(sent.headers.get(header)).toContain(gateway.apiKey);
    expect(request_id).toBe(response.headers.get('x-request-id'));
    const cost = Number(response.headers.get('x-tollgate-cost'));
    expect(data).toMatchObject({
      id: `msg_${request_id?.slice('req_'.length)}`,
      type: 'message',
      role: 'assistant',
      model: payg,
      stop_reason: 'end_turn',
      stop_sequence: null,
      content: [{ type: 'text' }],
      usage: {
        output_tokens: 30,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
        service_tier: 'standard',
        cost,
      },
    });
    expect(before - (await readBalance(gateway))).toBe(BigInt(Math.round(cost * 1e9)));
  });

  test('the stream helper gives the same text as its deltas, and the final usage', async () => {
    const stream = one.messages.stream({
      model: payg,
      max_tokens: 1000,
      messages: [user('Write a long text about bridges.\n!sim tokens=300')],
    });
    let deltas = '';
    let count = 0;
    stream.on('text', (delta, snapshot) => {
      deltas += delta;
      count += 1;
      expect(snapshot).toBe(deltas);
    });
    const final = await stream.finalMessage();
    expect(readText(final)).toBe(deltas);
    expect(count).toBeGreaterThan(20);
    expect(final.usage.output_tokens).toBe(300);
    expect(final.usage.input_tokens).toBeGreaterThan(5);
    expect(final.stop_reason).toBe('end_turn');
  });

  test('parallel calls are separate blocks, streamed and whole, and the conversation continues with their results', async () => {
    const body = {
      model: payg,
      max_tokens: 1000,
      tools: [weather],
      messages: [user('Weather in Paris and Rome?\n!sim calls=2 say=I will look.')],
    };
    const whole = await one.messages.create(body);
    const streamed = await one.messages.stream(body).finalMessage();
    // Gemini's signature of a call comes as a `thinking` block before the call, which the client sends back.
    const signatureBlock = upstream === 'gemini' ? ['thinking'] : [];
    expect(whole.content.map(({ type }) => type)).toEqual(['text', ...signatureBlock, 'tool_use', 'tool_use']);
    expect(whole.stop_reason).toBe('tool_use');
    const calls = (message: Anthropic.Message) => message.content.filter(block => block.type === 'tool_use');
    expect(calls(streamed).map(({ name, input }) => ({ name, input }))).toEqual(
      calls(whole).map(({ name, input }) => ({ name, input })),
    );
    expect(calls(whole)[0]?.input).toHaveProperty('city');
    const next = await one.messages.create({
      ...body,
      messages: [
        ...body.messages,
        { role: 'assistant', content: whole.content },
        {
          role: 'user',
          content: [
            ...calls(whole).map(({ id }, index) => ({
              type: 'tool_result' as const,
              tool_use_id: id,
              content: [{ type: 'text' as const, text: 'Sunny' }],
              is_error: index === 1,
            })),
            { type: 'text', text: 'Go on.' },
          ],
        },
      ],
    });
    expect(next.stop_reason).toBe('end_turn');
    expect(readText(next)).not.toBe('');
  });

  test('thinking comes with a signature and is accepted back', async () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 1024 };
    const ask = user('Why is the sky blue?\n!sim tokens=40');
    const first = await one.messages.create({ model: payg, max_tokens: 2000, thinking, messages: [ask] });
    expect(first.content.map(({ type }) => type)).toEqual(['thinking', 'text']);
    const [block] = first.content;
    expect(block).toMatchObject({ type: 'thinking' });
    // Gemini signs what follows the reasoning instead of the reasoning.
    const isSigned = upstream !== 'gemini';
    expect(block?.type === 'thinking' && block.signature !== '').toBe(isSigned);
    const next = await one.messages
      .stream({
        model: payg,
        max_tokens: 2000,
        thinking,
        messages: [ask, { role: 'assistant', content: first.content }, user('And at night?')],
      })
      .finalMessage();
    expect(next.content[0]?.type).toBe('thinking');
  });

  if (!(lacksHints || upstream === 'responses'))
    test('a cached prefix is written once and then read, and input_tokens does not include it', async () => {
      const system = [
        {
          type: 'text' as const,
          text: `${header} ${'Toll gates are everywhere. '.repeat(600)}`,
          cache_control: { type: 'ephemeral' as const, ttl: '1h' as const },
        },
      ];
      const body = { model: payg, max_tokens: 50, system, messages: [user('Hello')] };
      const written = (await one.messages.create(body)).usage;
      const read = (await one.messages.create(body)).usage;
      expect(written.cache_creation_input_tokens).toBeGreaterThan(1000);
      expect(written.cache_creation).toEqual({
        ephemeral_5m_input_tokens: 0,
        ephemeral_1h_input_tokens: written.cache_creation_input_tokens,
      });
      expect(read.cache_read_input_tokens).toBe(written.cache_creation_input_tokens);
      expect(read.input_tokens).toBe(written.input_tokens);
      expect(read.input_tokens).toBeLessThan(100);
    });

  test('countTokens returns the input tokens of a request, without a charge (HD-06)', async () => {
    const before = await readBalance(gateway);
    const body = { model: payg, system: 'You are brief.', tools: [weather], messages: [user('What is a toll gate?')] };
    const { input_tokens: counted } = await one.messages.countTokens(body);
    expect(counted).toBeGreaterThan(20);
    expect(await readBalance(gateway)).toBe(before);
  });

  test('models are listed in pages and found by id', async () => {
    const ids: string[] = [];
    for await (const { id, type } of one.models.list({ limit: 1 })) {
      expect(type).toBe('model');
      ids.push(id);
    }
    expect(ids).toContain(payg);
    expect(new Set(ids).size).toBe(ids.length);
    expect(await one.models.retrieve(payg)).toMatchObject({ id: payg, type: 'model' });
  });
});

test('the tool runner runs a tool and continues with its result', async () => {
  const cities: string[] = [];
  const tool = betaTool({
    name: 'get_weather',
    description: 'The weather of a city',
    inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    run: ({ city }) => {
      cities.push(city);
      return `Sunny in ${city}`;
    },
  });
  const final = await client.beta.messages.toolRunner({
    model: payg,
    max_tokens: 1000,
    tools: [tool],
    messages: [user('Weather in Paris?\n!sim calls=1')],
  });
  expect(cities).toHaveLength(1);
  expect(final.stop_reason).toBe('end_turn');
});

test('an image, a document and a search result are accepted', async () => {
  const png = await makePng(20, 10, 'red');
  const answer = await client.messages.create({
    model: payg,
    max_tokens: 100,
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data: png.toString('base64') },
          },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'A toll.' }, title: 'Toll' },
          { type: 'search_result', source: 'https://a.example', title: 'A', content: [{ type: 'text', text: 'B' }] },
          { type: 'text', text: 'What is this?\n!sim say=A gate.' },
        ],
      },
    ],
  });
  expect(readText(answer)).toBe('A gate.');
});

describe('stop reasons', () => {
  const saysContext = ['messages', undefined].includes(upstream);
  const ask = (text: string, more: object = {}): Promise<Anthropic.Message> =>
    client.messages.create({ model: payg, max_tokens: 100, messages: [user(text)], ...more });

  test.each([
    ['max_tokens', 'Go.\n!sim tokens=200', {}],
    // Only Messages can express this stop reason.
    [saysContext ? 'model_context_window_exceeded' : 'max_tokens', 'Go.\n!sim finish=context_window', {}],
    ['refusal', 'Go.\n!sim finish=refusal', {}],
    ['end_turn', 'Go.\n!sim finish=pause tokens=20', {}],
    ['tool_use', 'Go.\n!sim say=x', { tools: [weather], tool_choice: { type: 'any' } }],
  ])('%s: %s', async (reason, text, more) => {
    expect((await ask(text, more)).stop_reason).toBe(reason);
    expect((await streamed(text, more)).stop_reason).toBe(reason);
  });
  const streamed = (text: string, more: object): Promise<Anthropic.Message> =>
    client.messages.stream({ model: payg, max_tokens: 100, messages: [user(text)], ...more }).finalMessage();

  if (!lacksHints)
    test('stop_sequence names the sequence, which is not part of the text', async () => {
      const answer = await ask('Go.\n!sim say=one two three', { stop_sequences: ['two'] });
      expect(answer).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'two' });
      expect(readText(answer)).toBe('one ');
    });

  test('a refusal has stop_details', async () => {
    expect(await ask('Go.\n!sim finish=refusal')).toMatchObject({ stop_details: { type: 'refusal' } });
  });
});

describe('errors', () => {
  const body = { model: payg, max_tokens: 50, messages: [user('Hello')] };
  const catchFailure = async (request: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> => {
    const failure = await request.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(Anthropic.APIError);
    return failure as InstanceType<typeof Anthropic.APIError>;
  };
  const envelope = (type: string, code: string): object => ({ type: 'error', error: { type, code } });

  test('AuthenticationError: an unknown key', async () => {
    const failure = await catchFailure(makeClient({ apiKey: `sk-tg-${'x'.repeat(43)}` }).messages.create(body));
    expect(failure).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(failure.error).toMatchObject(envelope('authentication_error', 'invalid_api_key'));
    expect(failure.requestID).toMatch(/^req_/);
  });

  test('PermissionDeniedError: a management key', async () => {
    const failure = await catchFailure(makeClient({ apiKey: gateway.managementKey }).messages.create(body));
    expect(failure).toBeInstanceOf(Anthropic.PermissionDeniedError);
    expect(failure.error).toMatchObject(envelope('permission_error', 'permission_denied'));
  });

  test('BadRequestError: an unknown model', async () => {
    const failure = await catchFailure(client.messages.create({ ...body, model: 'acme/unknown' }));
    expect(failure).toBeInstanceOf(Anthropic.BadRequestError);
    expect(failure.error).toMatchObject(envelope('invalid_request_error', 'model_not_found'));
  });

  test('NotFoundError: an unknown model in a path', async () => {
    expect(await catchFailure(client.models.retrieve('sim/nothing'))).toBeInstanceOf(Anthropic.NotFoundError);
  });

  test('UnprocessableEntityError: a value out of range', async () => {
    const failure = await catchFailure(client.messages.create({ ...body, max_tokens: 0 }));
    expect(failure).toBeInstanceOf(Anthropic.UnprocessableEntityError);
    expect(failure.error).toMatchObject(envelope('invalid_request_error', 'validation_error'));
  });

  test('RateLimitError: an empty balance, which is not retried', async () => {
    const { key } = await makeKey(gateway, { balanceNanoUsd: 0n });
    sent.requests = 0;
    const failure = await catchFailure(makeClient({ apiKey: key }).messages.create(body));
    expect(failure).toBeInstanceOf(Anthropic.RateLimitError);
    expect(failure.error).toMatchObject(envelope('rate_limit_error', 'insufficient_balance'));
    expect(sent.requests).toBe(1);
  });

  test('InternalServerError: an upstream that fails', async () => {
    const failing = { ...body, messages: [user('Hello\n!sim status=503')] };
    const failure = await catchFailure(makeClient({ maxRetries: 0 }).messages.create(failing));
    expect(failure).toBeInstanceOf(Anthropic.InternalServerError);
    expect(failure.status).toBe(502);
    expect(failure.error).toMatchObject(envelope('api_error', 'upstream_error'));
  });

  test('a stream that fails in the middle raises APIError after the delivered part', async () => {
    const stream = client.messages.stream({ ...body, messages: [user('Hello\n!sim tokens=40 fail=5')] });
    let text = '';
    stream.on('text', delta => (text += delta));
    const failure = await catchFailure(stream.finalMessage());
    expect(failure.error).toMatchObject(envelope('api_error', 'upstream_error'));
    expect(text).not.toBe('');
  });
});
