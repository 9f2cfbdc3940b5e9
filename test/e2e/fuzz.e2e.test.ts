/** Unforeseen bodies: whatever JSON a client sends, the answer is a 200 or an error that names the client's mistake; the gateway never fails. */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { readBalance, endGateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { complete, payg, post } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '1000' });
afterAll(() => endGateway(gateway));

/** A body that uses nearly every member of the interface. */
const whole = {
  model: payg,
  messages: [
    { role: 'system', content: 'Be brief.', name: 'rules' },
    { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Hello' },
        { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } },
      ],
    },
    {
      role: 'assistant',
      content: 'Let me look.',
      refusal: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"a":1}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'seen' }] },
    { role: 'user', content: 'And?\n!sim tokens=3' },
  ],
  tools: [
    {
      type: 'function',
      function: {
        name: 'look',
        description: 'Looks',
        parameters: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
        strict: null,
      },
    },
    { type: 'custom', custom: { name: 'free', format: { type: 'text' } } },
  ],
  tool_choice: {
    type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'look' } }] },
  },
  parallel_tool_calls: false,
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'answer', schema: { type: 'object', properties: { a: { type: 'string' } } }, strict: true },
  },
  temperature: 0.5,
  top_p: 0.9,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  stop: ['END'],
  max_completion_tokens: 30,
  n: 2,
  seed: 7,
  logprobs: true,
  top_logprobs: 2,
  logit_bias: { '15496': 10 },
  reasoning_effort: 'low',
  service_tier: 'auto',
  stream: false,
  user: 'somebody',
  metadata: { a: 'b' },
  prompt_cache_key: 'k',
  verbosity: 'low',
  store: false,
};

type Path = readonly (string | number)[];

/** Returns the paths of all members and elements of a value. */
function placesIn(value: unknown, at: Path = []): Path[] {
  const members = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [
    at,
    ...members.flatMap(([name, member]) => placesIn(member, [...at, Array.isArray(value) ? Number(name) : name])),
  ];
}

/** Returns a copy with another value at a path; undefined removes the member. */
function changed(value: unknown, [step, ...rest]: Path, put: unknown): unknown {
  if (step === undefined) return put;
  // An earlier change has removed this path.
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value))
    return value.map((each: unknown, index) => (index === step ? changed(each, rest, put) : each));
  return { ...value, [step]: changed((value as Record<string, unknown>)[step], rest, put) };
}

const odd = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom<unknown>(
      undefined,
      null,
      true,
      0,
      -1,
      1.5,
      1e308,
      2 ** 53,
      '',
      ' ',
      'auto',
      '\ud800',
      '\u0000',
      '<|endoftext|>',
      [],
      {},
      [[]],
      [null],
      [{}],
      { type: 'text' },
      { type: 'function' },
      'x'.repeat(70_000),
    ),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);
const bodies = fc
  .array(fc.tuple(fc.constantFrom(...placesIn(whole)), odd), { minLength: 1, maxLength: 2 })
  .map(changes => changes.reduce<unknown>((body, [at, put]) => changed(body, at, put), whole))
  // `complete` reads one JSON value, so bodies that request a stream are left out.
  .filter(body => (body as { stream?: unknown } | null | undefined)?.stream !== true);

test('the unchanged body is accepted', async () => {
  const { status, body } = await complete(gateway, whole);
  expect(status, `${JSON.stringify(body.error ?? '')}`).toBe(200);
});

test('an odd value at any path is accepted, or refused as the client’s mistake', async () => {
  const { key, id } = await makeKey(gateway);
  const before = await readBalance(gateway);
  let paid = 0n;
  let taken = 0;
  const property = fc.asyncProperty(bodies, async body => {
    const { status, body: answer } = await complete(gateway, JSON.stringify(body) ?? '', { key });
    expect([200, 400, 404, 422], `${JSON.stringify(answer)}`).toContain(status);
    if (status !== 200) {
      expect(answer.error.type).toBe('invalid_request_error');
      expect(answer.error.message).not.toBe('');
      return;
    }
    taken += 1;
    paid += BigInt(Math.round(answer.usage.cost * 1e9));
  });
  await fc.assert(property, { numRuns: 700 });
  expect(taken).toBeGreaterThan(50);
  expect(before - (await readBalance(gateway))).toBe(paid);
  expect((await gateway.account.listActivity({ apiKeyId: id, limit: 1_000 })).records.length).toBeGreaterThanOrEqual(
    taken,
  );
});

test.each([
  ['deep nesting', `{"model":"${payg}","messages":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  [
    'deep nesting in an unknown member',
    `{"model":"${payg}","messages":[{"role":"user","content":"Hi\\n!sim tokens=1"}],"acme":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}}`,
  ],
  [
    'deep nesting in a schema',
    `{"model":"${payg}","messages":[{"role":"user","content":"Hi\\n!sim tokens=1"}],"tools":[{"type":"function","function":{"name":"a","parameters":${'{"items":'.repeat(5_000)}{}${'}'.repeat(5_000)}}}]}`,
  ],
  [
    'a schema that refers to itself',
    JSON.stringify({
      model: payg,
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 50,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { $ref: '#' } } },
    }),
  ],
  [
    '__proto__',
    `{"model":"${payg}","messages":[{"role":"user","content":"Hi\\n!sim tokens=1"}],"__proto__":{"stream":true},"constructor":{"prototype":{"a":1}}}`,
  ],
  [
    'a member twice',
    `{"model":"${payg}","model":"sim/small","messages":[{"role":"user","content":"Hi\\n!sim tokens=1"}]}`,
  ],
  [
    'a pattern that runs away',
    JSON.stringify({
      model: payg,
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 50,
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'a',
          schema: { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } }, required: ['a'] },
        },
      },
    }),
  ],
  [
    'ten thousand messages',
    JSON.stringify({
      model: payg,
      messages: Array.from({ length: 10_000 }, (_, index) => ({
        role: index % 2 === 0 ? 'user' : 'assistant',
        content: `${index}`,
      })).concat({ role: 'user', content: '!sim tokens=1' }),
    }),
  ],
  [
    'half a megabyte without a space',
    JSON.stringify({
      model: 'sim/long',
      messages: [{ role: 'user', content: `${'a'.repeat(500_000)}\n!sim tokens=1` }],
    }),
  ],
])('%s is answered in time', async (_, body) => {
  const began = performance.now();
  const response = await post(gateway, '/v1/chat/completions', body);
  await response.arrayBuffer();
  expect([200, 400, 422]).toContain(response.status);
  // Counting the tokens of the longest in one run would take half a minute of CPU time; in parts it takes a fraction of a second, so that the machine may be busy.
  expect(performance.now() - began).toBeLessThan(25_000);
  expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
});

test('invalid UTF-8 is refused as invalid JSON', async () => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  });
  expect([400, 422]).toContain(response.status);
  await response.arrayBuffer();
});
