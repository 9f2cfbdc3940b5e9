/** A conversation has the same responses over every transport. */
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { toRequestId } from '../../src/generation/response-ids.ts';
import { endGateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { payg } from './chat-client.ts';
import { type Resource, ResponsesCaller, readText } from './resource-caller.ts';
import { SocketClient } from './socket-client.ts';

const gateway = await startGateway({ balance: '1000', config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));
const caller = new ResponsesCaller(gateway, gateway.apiKey);

type Body = Readonly<Record<string, unknown>>;

/** One way to make a response; returns its final resource. */
type Way = (body: Body) => Promise<Resource>;

const whole: Way = body => caller.create(body);

const streamed: Way = async body => {
  const events = await caller.stream('POST', '', { ...body, stream: true });
  return expectFinal(events.at(-1)?.response);
};

const inBackground: Way = async body => {
  const { id } = await caller.create({ ...body, background: true });
  return caller.ended(id);
};

const followed: Way = async body => {
  const events = await caller.stream('POST', '', { ...body, background: true, stream: true });
  const replayed = await caller.stream('GET', `/${events[0]?.response?.id}?stream=true`);
  expect(replayed).toEqual(events);
  return expectFinal(events.at(-1)?.response);
};

const socket = await SocketClient.open(gateway.url, gateway.apiKey);
afterAll(() => socket.close());
const overSocket: Way = async body => {
  socket.create(body);
  const last = (await socket.turn()).at(-1);
  if (last?.error !== undefined) throw new Error(`${last.status}: ${JSON.stringify(last.error)}`);
  return expectFinal(last?.response as unknown as Resource);
};

const ways: Readonly<Record<string, Way>> = { whole, streamed, inBackground, followed, overSocket };

function expectFinal(resource: Resource | undefined): Resource {
  if (resource === undefined) throw new Error('no final resource');
  return resource;
}

/** Returns a response without times and without ids, which differ between transports. */
function comparable(resource: Resource): unknown {
  const suffix = resource.id.slice('resp_'.length);
  const previous = resource['previous_response_id'];
  const text = JSON.stringify({ ...resource, created_at: 0, completed_at: 0, background: false });
  // Ids of calls differ in each answer.
  const own = text.replaceAll(suffix, 'OWN').replaceAll(/"call_[A-Za-z0-9]{24}"/g, '"CALL"');
  return JSON.parse(typeof previous === 'string' ? own.replaceAll(previous.slice('resp_'.length), 'PREVIOUS') : own);
}

const tool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, maximum: 9 } },
    required: ['city', 'days'],
    additionalProperties: false,
  },
};
const custom = { type: 'custom', name: 'run', description: 'Runs a program' };

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).map(each => each.replaceAll('\n', ' '));

/** Generates what a turn requests; the next turn has the results of its tool calls. */
const turn = fc.record(
  {
    words: text,
    steering: fc.oneof(
      fc.constant(''),
      text.map(each => `\n!sim say=${each}`),
      fc.integer({ min: 1, max: 60 }).map(tokens => `\n!sim tokens=${tokens}`),
      fc.integer({ min: 1, max: 3 }).map(calls => `\n!sim calls=${calls}`),
      fc.constantFrom('refusal', 'length', 'context_window', 'pause').map(finish => `\n!sim finish=${finish}`),
    ),
    tools: fc.constantFrom([], [tool], [tool, custom]),
    instructions: fc.option(text, { nil: undefined }),
    reasoning: fc.option(fc.constantFrom({ effort: 'low' }, { effort: 'low', summary: 'auto' }), { nil: undefined }),
    include: fc.constantFrom(undefined, ['reasoning.encrypted_content']),
    max_output_tokens: fc.option(fc.integer({ min: 16, max: 80 }), { nil: undefined }),
    service_tier: fc.constantFrom(undefined, 'flex', 'priority'),
    parallel_tool_calls: fc.constantFrom(undefined, false),
    metadata: fc.constantFrom(undefined, { run: '1' }),
  },
  { noNullPrototype: true },
);
type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never;

function makeBody({ words, steering, ...settings }: Turn, previous: Resource | undefined): Body {
  const results = (previous?.output ?? [])
    .filter(item => item.type.endsWith('_call') && item['status'] !== 'incomplete')
    .map(item => ({ type: `${item.type}_output`, call_id: item['call_id'], output: 'Fine.' }));
  const input = [...results, { role: 'user', content: words + steering }];
  const chained = previous === undefined ? {} : { previous_response_id: previous.id };
  return { model: payg, temperature: 0, input, ...settings, ...chained };
}

test('streamed, whole, in the background, followed and over a WebSocket', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 3 }), async turns => {
      const ends = await Promise.all(
        Object.entries(ways).map(async ([name, way]) => {
          const resources: unknown[] = [];
          let previous: Resource | undefined;
          for (const each of turns) {
            previous = await way(makeBody(each, previous));
            resources.push(comparable(previous));
            const stored = comparable(await caller.get(previous.id));
            expect({ name, stored }).toEqual({ name, stored: comparable(previous) });
          }
          return resources;
        }),
      );
      for (const [index, name] of Object.keys(ways).entries()) {
        expect({ name, resources: ends[index] }).toEqual({ name, resources: ends[0] });
      }
    }),
    { numRuns: 25 },
  );
}, 300_000);

describe.each(Object.entries(ways))('settings that an upstream ignores are enforced by the gateway, %s', (_, way) => {
  const other = { type: 'function', name: 'get_time', description: 'The time in a city', parameters: tool.parameters };
  const tools = [tool, other, custom];
  const only = (mode: string) => ({ type: 'allowed_tools', mode, tools: [{ type: 'function', name: 'get_time' }] });
  const readCalls = ({ output }: Resource) => output.filter(({ type }) => type.endsWith('_call'));

  test.each([
    ['max_tool_calls', { max_tool_calls: 2 }, ['get_weather', 'get_time'], 'commentary'],
    ['parallel_tool_calls', { parallel_tool_calls: false }, ['get_weather'], 'commentary'],
    ['tool_choice none', { tool_choice: 'none' }, [], 'final_answer'],
    ['allowed_tools', { tool_choice: only('required') }, ['get_time'], 'commentary'],
    ['allowed_tools none', { tool_choice: only('none') }, [], 'final_answer'],
    [
      'the tightest of all',
      { max_tool_calls: 3, parallel_tool_calls: false, tool_choice: only('auto') },
      ['get_time'],
      'commentary',
    ],
  ])('%s is enforced', async (_name, settings, names, phase) => {
    const input = '!sim calls=3 ignore=parallel,tool_choice,max_tool_calls say=Let me see.';
    const resource = await way({ model: payg, input, tools, ...settings });
    expect(resource.status).toBe('completed');
    expect(readCalls(resource).map(call => call['name'])).toEqual(names);
    expect([resource.output[0]?.type, resource.output[0]?.['phase']]).toEqual(['message', phase]);
    for (const [name, value] of Object.entries(settings)) expect(resource[name]).toEqual(value);
  });

  test('the output limit is enforced, in the answer and in its cost', async () => {
    const input = '!sim tokens=300 ignore=max_tokens';
    const resource = await way({ model: payg, input, max_output_tokens: 20 });
    expect([resource.status, resource['incomplete_details']]).toEqual(['incomplete', { reason: 'max_output_tokens' }]);
    expect(resource.usage?.['output_tokens']).toBe(20);
    const record = await readRecord(gateway, toRequestId(resource.id) ?? '');
    expect(record.buckets.find(({ kind }) => kind === 'output')?.tokens).toBe(20n);
  });

  test('a tier is in the response and in its price; an input that is too long loses its oldest turns with `truncation`, and is refused without it', async () => {
    const tiered = await way({ model: payg, input: '!sim tokens=20 usage=none', service_tier: 'priority' });
    const plain = await way({ model: payg, input: '!sim tokens=20 usage=none', service_tier: 'auto' });
    expect([tiered['service_tier'], plain['service_tier']]).toEqual(['priority', 'default']);
    expect(tiered.usage?.['cost']).toBe(2 * Number(plain.usage?.['cost']));
    const long = [
      { role: 'user', content: 'word '.repeat(140_000) },
      { role: 'assistant', content: 'Read.' },
      { role: 'user', content: '!sim say=Short.' },
    ];
    const cut = await way({ model: payg, input: long, truncation: 'auto' });
    expect([readText(cut), cut['truncation']]).toEqual(['Short.', 'auto']);
    expect(cut.usage?.['input_tokens']).toBeLessThan(200);
    for (const truncation of ['disabled', undefined]) {
      await expect(way({ model: payg, input: long, truncation })).rejects.toThrow('context_length_exceeded');
    }
  });
});

test.each(['!sim status=500', '!sim tokens=30 fail=3'])(
  'a failure in the background is the same in every replay: %s',
  async input => {
    const failed = await followed({ model: payg, input });
    const events = await caller.stream('GET', `/${failed.id}?stream=true`);
    const error = events.at(-2)?.['error'] as { readonly id: string; readonly code: string };
    expect([error.code, error.id, failed.error?.code]).toEqual([
      'upstream_error',
      toRequestId(failed.id),
      'upstream_error',
    ]);
  },
);
