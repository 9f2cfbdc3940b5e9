/** Any conversation ends in the same response, however it is transported. */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { endGateway, startGateway } from '../gateway.ts';
import { payg } from './chat-client.ts';
import { type Resource, ResponsesCaller } from './resource-caller.ts';
import { SocketClient } from './socket-client.ts';

const gateway = await startGateway({ balance: '1000', config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));
const caller = new ResponsesCaller(gateway, gateway.apiKey);

type Body = Readonly<Record<string, unknown>>;

/** One way to make a response: answers its final resource. */
type Way = (body: Body) => Promise<Resource>;

const whole: Way = body => caller.create(body);

const streamed: Way = async body => {
  const events = await caller.stream('POST', '', { ...body, stream: true });
  return finalOf(events.at(-1)?.response);
};

const inBackground: Way = async body => {
  const { id } = await caller.create({ ...body, background: true });
  return caller.ended(id);
};

const followed: Way = async body => {
  const events = await caller.stream('POST', '', { ...body, background: true, stream: true });
  const replayed = await caller.stream('GET', `/${events[0]?.response?.id}?stream=true`);
  expect(replayed).toEqual(events);
  return finalOf(events.at(-1)?.response);
};

const socket = await SocketClient.open(gateway.url, gateway.apiKey);
afterAll(() => socket.close());
const overSocket: Way = async body => {
  socket.create(body);
  return finalOf((await socket.turn()).at(-1)?.response as unknown as Resource);
};

const ways: Readonly<Record<string, Way>> = { whole, streamed, inBackground, followed, overSocket };

function finalOf(resource: Resource | undefined): Resource {
  if (resource === undefined) throw new Error('no final resource');
  return resource;
}

/** Without what says when and as what it was made: times, and ids, which follow from the response's own. */
function comparable(resource: Resource): unknown {
  const suffix = resource.id.slice('resp_'.length);
  const previous = resource['previous_response_id'];
  const text = JSON.stringify({ ...resource, created_at: 0, completed_at: 0, background: false });
  const own = text.replaceAll(suffix, 'OWN');
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

/** What a turn is asked for; tool calls are answered in the next one. */
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

function bodyOf({ words, steering, ...settings }: Turn, previous: Resource | undefined): Body {
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
            previous = await way(bodyOf(each, previous));
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
