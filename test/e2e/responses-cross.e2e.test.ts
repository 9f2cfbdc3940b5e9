/** The same conversation through Chat, Messages and Responses has the same words and calls and, if the usage is equal, the same cost, streamed or not. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { payg } from './chat-client.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '1000' });
});
afterAll(() => endGateway(gateway));

type Json = Readonly<Record<string, unknown>>;

/** A conversation, independent of the interface. */
interface Conversation {
  readonly system: string | undefined;
  readonly turns: readonly { readonly user: string; readonly assistant: string }[];
  /** The cities in earlier calls of the tool. */
  readonly requested: readonly string[];
  readonly question: string;
  readonly tier: 'flex' | 'priority' | undefined;
}

/** The members of an answer that the test reads. */
interface JsonMembers {
  readonly text: string;
  readonly calls: readonly string[];
  readonly finish: 'stop' | 'length' | 'filter' | 'calls';
  readonly input: number;
  readonly output: number;
  readonly cost: number;
}

async function post(path: string, body: Json): Promise<{ readonly body: string; readonly isStream: boolean }> {
  const answer = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  expect(answer.status, `${text}`).toBe(200);
  return { body: text, isStream: answer.headers.get('content-type')?.startsWith('text/event-stream') === true };
}

/** The data of a stream's events. */
const parseEvents = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter(line => line.startsWith('data: {'))
    .map(line => JSON.parse(line.slice(6)) as Record<string, unknown>);

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const description = 'The weather of a city';
const limit = 60;
const finishes: Readonly<Record<string, JsonMembers['finish']>> = {
  stop: 'stop',
  end_turn: 'stop',
  length: 'length',
  max_tokens: 'length',
  content_filter: 'filter',
  tool_calls: 'calls',
  tool_use: 'calls',
};
const call = (name: string, args: string): string => `${name}(${JSON.stringify(JSON.parse(args))})`;

async function chat({ system, turns, requested, question, tier }: Conversation, stream: boolean): Promise<JsonMembers> {
  const messages = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    ...turns.flatMap(turn => [
      { role: 'user', content: turn.user },
      { role: 'assistant', content: turn.assistant },
    ]),
    ...requested.flatMap((city, index) => [
      { role: 'user', content: `And ${city}?` },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: `c${index}`, type: 'function', function: { name: 'get_weather', arguments: JSON.stringify({ city }) } },
        ],
      },
      { role: 'tool', tool_call_id: `c${index}`, content: `Sunny in ${city}` },
    ]),
    { role: 'user', content: question },
  ];
  const answer = await post('/v1/chat/completions', {
    model: payg,
    messages,
    temperature: 0,
    max_completion_tokens: limit,
    tools: [{ type: 'function', function: { name: 'get_weather', description, parameters } }],
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  interface Call {
    readonly index: number;
    readonly function: { readonly name?: string; readonly arguments: string };
  }
  interface Choice {
    readonly message?: { content: string | null; refusal?: string | null; tool_calls?: readonly Call[] };
    readonly delta?: { content?: string; refusal?: string | null; tool_calls?: readonly Call[] };
    readonly finish_reason: string | null;
  }
  const bodies = answer.isStream ? parseEvents(answer.body) : [JSON.parse(answer.body) as Record<string, unknown>];
  const choices = bodies.flatMap(body => body['choices'] as Choice[]);
  const said = choices.map(({ message, delta }) => message ?? delta);
  const calls: { name: string; text: string }[] = [];
  for (const [at, each] of said.flatMap(one => one?.tool_calls ?? []).entries()) {
    const place = answer.isStream ? each.index : at;
    const known = calls[place] ?? { name: '', text: '' };
    calls[place] = known;
    known.name += each.function.name ?? '';
    known.text += each.function.arguments;
  }
  const usage = bodies.at(-1)?.['usage'] as { prompt_tokens: number; completion_tokens: number; cost: number };
  return {
    text: said.map(one => `${one?.content ?? ''}${one?.refusal ?? ''}`).join(''),
    calls: calls.map(({ name, text }) => call(name, text)),
    finish: finishes[choices.find(({ finish_reason: reason }) => reason != null)?.finish_reason ?? ''] ?? 'stop',
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    cost: usage.cost,
  };
}

async function messages(
  { system, turns, requested, question, tier }: Conversation,
  stream: boolean,
): Promise<JsonMembers> {
  const answer = await post('/v1/messages', {
    model: payg,
    ...(system === undefined ? {} : { system }),
    messages: [
      ...turns.flatMap(turn => [
        { role: 'user', content: turn.user },
        { role: 'assistant', content: turn.assistant },
      ]),
      ...requested.flatMap((city, index) => [
        { role: 'user', content: `And ${city}?` },
        { role: 'assistant', content: [{ type: 'tool_use', id: `c${index}`, name: 'get_weather', input: { city } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: `c${index}`, content: `Sunny in ${city}` }] },
      ]),
      { role: 'user', content: question },
    ],
    temperature: 0,
    max_tokens: limit,
    tools: [{ name: 'get_weather', description, input_schema: parameters }],
    ...(tier === undefined ? {} : { service_tier: tier }),
    stream,
  });
  interface Block {
    readonly type: string;
    text?: string;
    name?: string;
    input?: object;
    json?: string;
  }
  interface Usage {
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly cache_read_input_tokens: number;
    readonly cache_creation_input_tokens: number;
    readonly cost: number;
  }
  let whole: { content: Block[]; stop_reason: string; usage: Usage };
  if (answer.isStream) {
    const content: Block[] = [];
    let end: { delta: { stop_reason: string }; usage: Usage } | undefined;
    for (const event of parseEvents(answer.body)) {
      const delta = event['delta'] as Record<string, string> | undefined;
      const last = content.at(-1);
      if (event['type'] === 'content_block_start') content.push({ ...(event['content_block'] as Block), json: '' });
      else if (event['type'] === 'message_delta') end = event as never;
      else if (last !== undefined && delta !== undefined) {
        last.text = `${last.text ?? ''}${delta['text'] ?? ''}`;
        last.json = `${last.json ?? ''}${delta['partial_json'] ?? ''}`;
      }
    }
    if (end === undefined) throw new Error('no message_delta');
    whole = { content, stop_reason: end.delta.stop_reason, usage: end.usage };
  } else {
    whole = JSON.parse(answer.body) as typeof whole;
  }
  const { content, stop_reason: reason, usage } = whole;
  const tools = content.filter(({ type }) => type === 'tool_use');
  return {
    text: content.map(block => (block.type === 'text' ? (block.text ?? '') : '')).join(''),
    calls: tools.map(({ name, input, json }) =>
      call(name ?? '', json === undefined || json === '' ? JSON.stringify(input) : json),
    ),
    finish: finishes[reason] ?? 'stop',
    input: usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
    output: usage.output_tokens,
    cost: usage.cost,
  };
}

async function responses(
  { system, turns, requested, question, tier }: Conversation,
  stream: boolean,
): Promise<JsonMembers> {
  const answer = await post('/v1/responses', {
    model: payg,
    input: [
      ...(system === undefined ? [] : [{ role: 'system', content: system }]),
      ...turns.flatMap(turn => [
        { role: 'user', content: turn.user },
        { role: 'assistant', content: turn.assistant },
      ]),
      ...requested.flatMap((city, index) => [
        { role: 'user', content: `And ${city}?` },
        { type: 'function_call', call_id: `c${index}`, name: 'get_weather', arguments: JSON.stringify({ city }) },
        { type: 'function_call_output', call_id: `c${index}`, output: `Sunny in ${city}` },
      ]),
      { role: 'user', content: question },
    ],
    temperature: 0,
    max_output_tokens: limit,
    store: false,
    tools: [{ type: 'function', name: 'get_weather', description, parameters }],
    ...(tier === undefined ? {} : { service_tier: tier }),
    stream,
  });
  interface Resource {
    readonly status: string;
    readonly incomplete_details: { readonly reason: string } | null;
    readonly output: readonly {
      readonly type: string;
      readonly name: string;
      readonly arguments: string;
      readonly content?: readonly { readonly text?: string; readonly refusal?: string }[];
    }[];
    readonly usage: { readonly input_tokens: number; readonly output_tokens: number; readonly cost: number };
  }
  const last = answer.isStream ? parseEvents(answer.body).at(-1)?.['response'] : (JSON.parse(answer.body) as unknown);
  const { status, incomplete_details: details, output, usage } = last as Resource;
  const calls = output.filter(({ type }) => type === 'function_call');
  const cut = details?.reason === 'content_filter' ? 'filter' : 'length';
  return {
    text: output
      .flatMap(({ content }) => (content ?? []).map(part => `${part.text ?? ''}${part.refusal ?? ''}`))
      .join(''),
    calls: calls.map(({ name, arguments: args }) => call(name, args)),
    finish: status === 'incomplete' ? cut : calls.length > 0 ? 'calls' : 'stop',
    input: usage.input_tokens,
    output: usage.output_tokens,
    cost: usage.cost,
  };
}

const words = fc.constantFrom(
  'What is a toll gate?',
  'Write a long text about bridges.',
  'Good morning 😀',
  'Zwölf Boxkämpfer',
);
const steering = fc.constantFrom(
  '',
  '\n!sim calls=1',
  '\n!sim calls=2',
  '\n!sim say=as you wish',
  '\n!sim finish=length',
  '\n!sim tokens=20',
);
const conversation: fc.Arbitrary<Conversation> = fc.record({
  system: fc.option(fc.constantFrom('You are brief.', 'Answer in verse.'), { nil: undefined }),
  turns: fc.array(fc.record({ user: words, assistant: words }), { maxLength: 2 }),
  requested: fc.array(fc.constantFrom('Paris', 'Oslo'), { maxLength: 2 }),
  question: fc.tuple(words, steering).map(([text, order]) => text + order),
  tier: fc.constantFrom(undefined, undefined, 'flex', 'priority'),
});

test('answers have the same words, calls and finish reason, and the same cost if their usage is equal', async () => {
  let equal = 0;
  await fc.assert(
    fc.asyncProperty(conversation, async each => {
      const answers = await Promise.all(
        [chat, messages, responses].flatMap(ask => [ask(each, false), ask(each, true)]),
      );
      const [first, ...others] = answers;
      for (const other of others) {
        expect([other.text, other.calls, other.finish]).toEqual([first?.text, first?.calls, first?.finish]);
        if (other.input !== first?.input || other.output !== first.output) continue;
        equal += 1;
        expect(other.cost).toBeCloseTo(first.cost, 9);
      }
    }),
    { numRuns: 40 },
  );
  // Some usages must be equal, or no costs were compared.
  expect(equal).toBeGreaterThan(100);
});
