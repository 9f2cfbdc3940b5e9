/**
 * Every key of the steering line (docs/providers.md "Controlling the built-in models") that has an effect in Chat and, with `ignore=`, how the gateway enforces what an upstream ignores. Each request
 * is sent whole and as a stream; the charges are read from the ledger.
 * Ids like FI-08 name cases of `test/translation/cases.json`.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../../src/gen/tollgate/v1/event_pb.ts';
import { endGateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { ask, type ChatBody, type ChatError, complete, stream, type ToolCall } from './chat-client.ts';

const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\ntimeouts: { first_event: 2s, idle: 1s }\nretries: 0\n',
});
afterAll(() => endGateway(gateway));

/** What whole and streamed answers have in common. */
interface Result {
  readonly status: number;
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly finish: string | undefined;
  readonly outputTokens: number | undefined;
  readonly cost: number | undefined;
  readonly error: ChatError | undefined;
  readonly requestId: string;
}

const ways = [
  {
    way: 'whole',
    send: async (body: ChatBody): Promise<Result> => {
      const { status, text, calls, finish, headers, body: answer } = await complete(gateway, body);
      return {
        status,
        text,
        calls,
        finish,
        outputTokens: answer.usage?.completion_tokens,
        cost: answer.usage?.cost,
        error: answer.error,
        requestId: headers.get('x-request-id') ?? '',
      };
    },
  },
  {
    way: 'stream',
    send: async (body: ChatBody): Promise<Result> => {
      const { status, text, calls, finish, headers, usage, error } = await stream(gateway, body);
      return {
        status,
        text,
        calls,
        finish,
        outputTokens: usage?.completion_tokens,
        cost: usage?.cost,
        error,
        requestId: headers.get('x-request-id') ?? '',
      };
    },
  },
] as const;

const steer = (line: string, more?: ChatBody): ChatBody => ask(`What about toll gates?\n!sim ${line}`, more);
const makeTool = (name: string): object => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
});
const tools = [makeTool('get_weather'), makeTool('get_time')];

describe.each(ways)('$way', ({ send }) => {
  test.each([1, 37, 1_500])('tokens=%i is the length of the answer', async tokens => {
    const { outputTokens, finish } = await send(steer(`tokens=${tokens}`));
    expect({ outputTokens, finish }).toEqual({ outputTokens: tokens, finish: 'stop' });
  });

  test('tps is the pace', async () => {
    const began = performance.now();
    await send(steer('tokens=60 tps=60'));
    const ms = performance.now() - began;
    expect(ms).toBeGreaterThan(700);
    expect(ms).toBeLessThan(6_000);
  });

  test('delay_ms is the time before the first event', async () => {
    const began = performance.now();
    expect((await send(steer('delay_ms=400 tokens=5'))).status).toBe(200);
    expect(performance.now() - began).toBeGreaterThan(390);
  });

  test.each(['Exactly this.', 'a=b  and   tokens=3 fail=1', '', 'Ünï ✓ 日本語 👩‍👩‍👧 ﷽', ' leading and trailing '])(
    'say=%j is answered unchanged',
    async text => {
      const { text: answered, finish } = await send(steer(`tokens=900 say=${text}`));
      expect({ answered, finish }).toEqual({ answered: text, finish: 'stop' });
    },
  );

  test('calls=3 with two tools calls one of them again, after the text of say', async () => {
    const { text, calls, finish } = await send(steer('calls=3 say=Let me look.', { tools }));
    expect(text).toBe('Let me look.');
    expect(finish).toBe('tool_calls');
    expect(calls.map(call => call.type)).toEqual(['function', 'function', 'function']);
    expect(new Set(calls.map(({ function: { name } }) => name))).toEqual(new Set(['get_weather', 'get_time']));
    expect(new Set(calls.map(({ id }) => id)).size).toBe(3);
    for (const call of calls) expect(JSON.parse(call.function.arguments)).toMatchObject({ city: expect.any(String) });
  });

  test('calls=… has no effect once a tool result follows the line', async () => {
    const first = await send(steer('calls=1', { tools }));
    const messages = [
      { role: 'user', content: 'The weather?\n!sim calls=1' },
      { role: 'assistant', content: null, tool_calls: first.calls },
      { role: 'tool', tool_call_id: first.calls[0]?.id, content: 'Hail' },
    ];
    const { calls, finish, text } = await send(ask('', { messages, tools }));
    expect({ calls, finish }).toEqual({ calls: [], finish: 'stop' });
    expect(text).toContain('Hail');
  });

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['refusal', 'content_filter'],
    ['context_window', 'length'],
  ])('finish=%s is answered as %s', async (ordered, shown) => {
    const { status, finish, outputTokens } = await send(steer(`tokens=20 finish=${ordered}`));
    expect({ status, finish }).toEqual({ status: 200, finish: shown });
    expect(outputTokens).toBeGreaterThan(0);
  });

  test('after finish=pause the gateway continues the answer to its end, and the client sees one answer whose usage is the sum (FI-08)', async () => {
    const { finish, outputTokens, requestId, cost } = await send(steer('tokens=20 finish=pause'));
    expect(finish).toBe('stop');
    const record = await readRecord(gateway, requestId);
    expect(record.state).toBe(RecordState.COMPLETED);
    expect(record.usage?.outputTokens).toBe(outputTokens);
    expect(record.costNanoUsd).toBe(BigInt(Math.round((cost ?? 0) * 1e9)));
  });
});

test.each(ways)('with a pause, neither the answer nor its charge exceeds the output limit, $way', async ({ send }) => {
  const { finish, outputTokens, requestId } = await send(steer('tokens=100 finish=pause', { max_tokens: 40 }));
  expect(finish).toBe('length');
  expect(outputTokens).toBeLessThanOrEqual(40);
  expect((await readRecord(gateway, requestId)).usage?.outputTokens).toBe(outputTokens);
});

describe.each(ways)('enforcement, $way', ({ send }) => {
  test('a stop sequence ends the text although the upstream continues, and no part of the sequence is sent', async () => {
    const { text, finish } = await send(steer('ignore=stop say=alpha beta STOPHERE gamma', { stop: ['STOPHERE'] }));
    expect({ text, finish }).toEqual({ text: 'alpha beta ', finish: 'stop' });
  });

  test('text that only begins like a stop sequence is sent', async () => {
    const { text } = await send(steer('ignore=stop say=one STOPTHERE two STOP', { stop: ['STOPHERE'] }));
    expect(text).toBe('one STOPTHERE two STOP');
  });

  test('an answer is cut at the limit that its upstream ignores, and no more is charged', async () => {
    const { finish, outputTokens, requestId } = await send(steer('ignore=max_tokens tokens=500', { max_tokens: 40 }));
    expect(finish).toBe('length');
    expect(outputTokens).toBeLessThanOrEqual(40);
    expect(outputTokens).toBeGreaterThan(20);
    const record = await readRecord(gateway, requestId);
    expect(record.usage?.outputTokens).toBe(outputTokens);
  });

  test('with parallel_tool_calls false, only one call is sent', async () => {
    const more = { tools, parallel_tool_calls: false };
    const { calls, finish } = await send(steer('ignore=parallel calls=3', more));
    expect(calls).toHaveLength(1);
    expect(finish).toBe('tool_calls');
  });

  test('with tool_choice none, no call is sent', async () => {
    const { calls, finish, text } = await send(
      steer('ignore=tool_choice calls=1 say=Words.', { tools, tool_choice: 'none' }),
    );
    expect({ calls, finish, text }).toEqual({ calls: [], finish: 'stop', text: 'Words.' });
  });

  test('with allowed_tools, only calls of these tools are sent', async () => {
    const allowed = {
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'get_time' } }] },
    };
    const { calls } = await send(steer('ignore=tool_choice calls=2', { tools, tool_choice: allowed }));
    expect(calls.filter(({ function: { name } }) => name !== 'get_time')).toEqual([]);
  });

  test('with usage=none, the gateway counts the tokens and marks the usage as an estimate', async () => {
    const { outputTokens, cost, requestId } = await send(steer('usage=none tokens=200'));
    const record = await readRecord(gateway, requestId);
    expect(record.usageSource).toBe(UsageSource.ESTIMATED);
    expect(outputTokens).toBeGreaterThan(100);
    expect(outputTokens).toBeLessThan(400);
    expect(record.costNanoUsd).toBe(BigInt(Math.round((cost ?? 0) * 1e9)));
    const counted = await readRecord(gateway, (await send(steer('tokens=200'))).requestId);
    expect(counted.usageSource).toBe(UsageSource.REPORTED);
  });
});

describe.each(ways)('failures, $way', ({ way, send }) => {
  test.each([400, 413, 422])('status=%i is the client’s mistake: 400, free, without a record', async status => {
    const { status: answered, error, requestId } = await send(steer(`status=${status}`));
    expect({ answered, code: error?.code }).toEqual({ answered: 400, code: 'upstream_rejected' });
    await expect(gateway.account.getActivity({ requestId })).rejects.toThrow(/not.?found/i);
  });

  test.each([401, 403, 404, 408, 409, 429, 500, 503, 529])(
    'HD-13: status=%i is the upstream’s failure: 502, free, with a record of cost 0',
    async status => {
      const { status: answered, error, requestId } = await send(steer(`status=${status}`));
      expect({ answered, code: error?.code, type: error?.type }).toEqual({
        answered: 502,
        code: 'upstream_error',
        type: 'upstream_error',
      });
      const record = await readRecord(gateway, requestId);
      expect({ state: record.state, cost: record.costNanoUsd }).toEqual({
        state: RecordState.UPSTREAM_FAILED,
        cost: 0n,
      });
    },
  );

  test.each([
    ['fail=4', 'upstream_error'],
    ['cut=4', 'upstream_error'],
    ['stall=4', 'upstream_timeout'],
  ])(
    '%s after output: for a stream, what was delivered is charged; a whole answer is 502 and free',
    async (line, code) => {
      const { status, text, error, requestId } = await send(steer(`tokens=100 ${line}`));
      const record = await readRecord(gateway, requestId);
      expect(record.state).toBe(RecordState.UPSTREAM_FAILED);
      expect(error?.code).toBe(code);
      if (way === 'whole') {
        expect({ status, cost: record.costNanoUsd }).toEqual({ status: 502, cost: 0n });
        return;
      }
      expect(status).toBe(200);
      expect(text).not.toBe('');
      expect(error?.id).toBe(requestId);
      expect(record.costNanoUsd).toBeGreaterThan(0n);
      expect(record.usage?.outputTokens).toBeGreaterThan(0);
      expect(record.usage?.outputTokens).toBeLessThan(40);
    },
  );

  test.each(['fail=0', 'cut=0'])('%s, before any output, is free', async line => {
    const { error, text, requestId } = await send(steer(`tokens=100 ${line}`));
    expect({ code: error?.code, text }).toEqual({ code: 'upstream_error', text: '' });
    const record = await readRecord(gateway, requestId);
    expect({ state: record.state, cost: record.costNanoUsd }).toEqual({ state: RecordState.UPSTREAM_FAILED, cost: 0n });
  });

  test('without an event before the first-event timeout, the answer is 502 upstream_timeout and free', async () => {
    const { status, error, requestId } = await send(steer('delay_ms=30000'));
    expect({ status, code: error?.code }).toEqual({ status: 502, code: 'upstream_timeout' });
    expect((await readRecord(gateway, requestId)).costNanoUsd).toBe(0n);
  });

  test.each([
    ['speed=9', 'speed'],
    ['tokens=999999', 'tokens'],
    ['tokens=-1', 'tokens'],
    ['delay_ms=600001', 'delay_ms'],
    ['calls=129', 'calls'],
    ['status=399', 'status'],
    ['status=600', 'status'],
    ['finish=tired', 'finish'],
    ['ignore=everything', 'ignore'],
    ['usage=some', 'usage'],
  ])('%s is refused, and the error names it', async (line, key) => {
    const { status, error } = await send(steer(line));
    expect({ status, code: error?.code }).toEqual({ status: 400, code: 'upstream_rejected' });
    expect(error?.message).toContain(key);
  });
});

describe('which line steers', () => {
  test('is the last of several lines, and only in the last user text', async () => {
    const two = await complete(gateway, ask('!sim say=first\nHello\n!sim say=second'));
    expect(two.text).toBe('second');
    const messages = [
      { role: 'user', content: '!sim say=old' },
      { role: 'assistant', content: 'old' },
      { role: 'user', content: 'And now?' },
    ];
    expect((await complete(gateway, ask('', { messages }))).text).not.toBe('old');
  });

  test('does not open a circuit breaker with the failures that it requests', async () => {
    for (let count = 0; count < 7; count += 1) expect((await complete(gateway, steer('status=500'))).status).toBe(502);
    expect((await complete(gateway, steer('say=still here'))).text).toBe('still here');
  });

  test('if there is none, at temperature 0 the same request gets the same text', async () => {
    const body = ask('Tell me about ferries.', { temperature: 0 });
    const [one, two, other] = await Promise.all([
      complete(gateway, body),
      complete(gateway, body),
      complete(gateway, ask('Tell me about tunnels.', { temperature: 0 })),
    ]);
    expect(one.text).toBe(two.text);
    expect(other.text).not.toBe(one.text);
  });

  test('is not needed for a long text: a prompt that requests one gets it up to the limit, in many deltas', async () => {
    const { usage, chunks, finish } = await stream(
      gateway,
      ask('Write a very long essay about roads.', { max_tokens: 2_000 }),
    );
    expect(usage?.completion_tokens).toBe(2_000);
    expect(finish).toBe('length');
    expect(chunks.length).toBeGreaterThan(200);
  });
});

test('is plain text with `steering: false`', async () => {
  const plain = await startGateway({ config: 'simulator: { tokens_per_second: 0, steering: false }\n' });
  try {
    const { text, status } = await complete(plain, ask('Hello\n!sim say=steered'));
    expect(status).toBe(200);
    expect(text).not.toBe('steered');
  } finally {
    await endGateway(plain);
  }
});
