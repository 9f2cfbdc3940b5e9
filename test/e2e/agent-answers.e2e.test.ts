/** Answers that agents can trust, for every pair of client interface and upstream protocol, streamed and whole (docs/interfaces/README.md "Tool calls"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { basePaths, type TextProtocol, textProtocols } from '../upstreams/text-protocol.ts';
import { write } from './scripted-answers.ts';
import { askFor, findInterface, interfaces, type Json, type Scripted, ScriptedUpstream } from './scripted-upstream.ts';

const whole = { name: 'f', arguments: '{"city":"Paris"}' };
const cut = { name: 'g', arguments: '{"city":"Par' };

/** Returns the upstream's answers; a word in the prompt selects one. Gemini sends calls whole, so its answers have no cut calls. */
function makeScripts(protocol: TextProtocol): Record<string, Scripted> {
  const common = {
    'stop-beside-calls': write(protocol, { text: 'I call.', calls: [whole, whole], finish: 'stop' }),
    'length-beside-calls': write(protocol, { calls: [whole], finish: 'length' }),
    'late-call': write(protocol, { text: 'I call.', calls: [whole], finish: 'tool_calls', late: true }),
  };
  if (protocol === 'gemini') return common;
  return {
    ...common,
    'cut-length': write(protocol, { calls: [whole, cut], finish: 'length' }),
    'cut-at-the-start': write(protocol, { calls: [whole, { ...cut, arguments: '' }], finish: 'length' }),
    'cut-success': write(protocol, { calls: [whole, cut], finish: 'tool_calls' }),
    'cut-stop': write(protocol, { text: 'I call.', calls: [cut], finish: 'stop' }),
  };
}

const onlyOne = (members: Json): Json => ({ id: 'c', created: 1, model: 'm', ...members });
const contradictions: Record<string, Scripted> = {
  'only-choice-1': {
    frames: [
      `data: ${JSON.stringify(onlyOne({ choices: [{ index: 1, delta: { content: 'hi' }, finish_reason: 'stop' }] }))}\n\n`,
      'data: [DONE]\n\n',
    ],
    whole: onlyOne({ choices: [{ index: 1, message: { content: 'hi' }, finish_reason: 'stop' }] }),
  },
};

const upstreams = new Map<TextProtocol, ScriptedUpstream>();
let gateway: Gateway;
beforeAll(async () => {
  for (const protocol of textProtocols) {
    const scripts = makeScripts(protocol);
    upstreams.set(
      protocol,
      await ScriptedUpstream.start(protocol === 'chat' ? { ...contradictions, ...scripts } : scripts),
    );
  }
  gateway = await startGateway({
    config: `
simulator: { enabled: false }
retries: 0
providers:
${textProtocols.map(each => `  ${each}: { protocol: ${each}, base_url: "${upstreams.get(each)?.url}${basePaths[each]}", api_key: k }`).join('\n')}
models:
${textProtocols.map(each => `  - { id: up/${each}, max_output_tokens: 4096, capabilities: { function_call: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${each}, model: m }] }`).join('\n')}
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  for (const upstream of upstreams.values()) upstream.stop();
});

const ways = interfaces.flatMap(face => [
  { face, streamed: true },
  { face, streamed: false },
]);
const pairs = textProtocols.flatMap(protocol =>
  ways.map(way => ({
    ...way,
    protocol,
    title: `${way.face.name} ${way.streamed ? 'streamed' : 'whole'} ← ${protocol}`,
  })),
);
const jsonPairs = pairs.filter(({ protocol }) => protocol !== 'gemini');
const ask = ({ face, streamed, protocol }: (typeof pairs)[number], word: string, more: Json = {}) =>
  askFor(gateway, { face, streamed, word, model: `up/${protocol}` }, more);
/** Sends a request that succeeds, because five failures in a row would open the route's circuit breaker. */
async function closeBreaker(pair: (typeof pairs)[number]): Promise<void> {
  expect((await ask(pair, 'length-beside-calls')).status).toBe(200);
}
const finishes: Readonly<Record<string, { calls: string; length: string }>> = {
  Chat: { calls: 'tool_calls', length: 'length' },
  Responses: { calls: 'completed', length: 'incomplete max_output_tokens' },
  Messages: { calls: 'tool_use', length: 'max_tokens' },
  Gemini: { calls: 'STOP', length: 'MAX_TOKENS' },
};

describe.each(pairs)('$title', pair => {
  const words = finishes[pair.face.name] ?? expect.fail();

  test('complete calls that end with the finish reason `stop` get the finish reason for tool calls', async () => {
    const { finish, calls } = await ask(pair, 'stop-beside-calls');
    expect([finish, calls.map(call => call.name)]).toEqual([words.calls, ['f', 'f']]);
  });

  test('the finish reason `length` is kept even if the calls are complete', async () => {
    const { finish, calls } = await ask(pair, 'length-beside-calls');
    expect([finish, calls]).toMatchObject([words.length, [whole]]);
  });

  test('a call that comes after the finish reason is not lost', async () => {
    const { finish, calls, text } = await ask(pair, 'late-call');
    expect([finish, text, calls]).toMatchObject([words.calls, 'I call.', [whole]]);
  });
});

describe.each(jsonPairs)('$title: a call whose arguments were cut', pair => {
  const words = finishes[pair.face.name] ?? expect.fail();

  test.each(['cut-length', 'cut-at-the-start'])(
    '%s: the call is incomplete, and the finish reason is the one for length',
    async word => {
      const { finish, calls } = await ask(pair, word);
      expect(finish).toBe(words.length);
      expect(calls[0]).toMatchObject(whole);
      if (pair.face.name === 'Responses') expect(calls.map(call => call.status)).toEqual(['completed', 'incomplete']);
    },
  );

  // In a whole answer of Messages, arguments are an object, which can’t be cut like a text.
  if (pair.streamed || pair.protocol !== 'messages')
    test.each(['cut-success', 'cut-stop'])(
      '%s: the request fails as an upstream failure and costs nothing',
      async word => {
        const { status, error, finish, requestId } = await ask(pair, word);
        // All frames come at once, so the client gets nothing before the failure.
        expect([status, error, finish]).toEqual([502, 'upstream_error', undefined]);
        const record = await readRecord(gateway, requestId);
        expect([record.state, record.costNanoUsd]).toEqual([RecordState.UPSTREAM_FAILED, 0n]);
        await closeBreaker(pair);
      },
    );
});

test('in Chat the upstream’s `stop` is kept if the client chose the function', async () => {
  for (const streamed of [true, false]) {
    const tool_choice = { type: 'function', function: { name: 'f' } };
    const requested = { face: findInterface('Chat'), model: 'up/chat', word: 'stop-beside-calls', streamed };
    const { finish, calls } = await askFor(gateway, requested, { tool_choice });
    expect([finish, calls.length]).toEqual(['stop', 2]);
  }
});

test.each(ways)(
  'an answer without the choice that was requested fails and costs nothing: $face.name $streamed',
  async way => {
    const { status, error, finish, requestId } = await askFor(gateway, {
      ...way,
      model: 'up/chat',
      word: 'only-choice-1',
    });
    expect([status, error, finish]).toEqual([502, 'upstream_error', undefined]);
    await closeBreaker({ ...way, protocol: 'chat', title: '' });
    const record = await readRecord(gateway, requestId);
    expect([record.state, record.costNanoUsd]).toEqual([RecordState.UPSTREAM_FAILED, 0n]);
  },
);
