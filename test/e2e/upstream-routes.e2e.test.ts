/** Routes, retries, keys and limits of providers as clients see them (docs/architecture.md "Routing"): no error while another route works, and one charge, whatever was tried. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { type ActivityRecord, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { clockAhead } from '../fake-clock.ts';
import { createAccount, endGateway, type Gateway, makeKey, readRecord, startGateway } from '../gateway.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { type Answer, ask, complete, stream, type Streamed } from './chat-client.ts';
import { eventually } from './upstream-callers.ts';

/** How long an open circuit breaker keeps a route from being used, in ms (docs/architecture.md "Routing"). */
const openMs = 10_000;

function frame(choice: object | undefined, more: object = {}): string {
  const choices = choice === undefined ? [] : [{ index: 0, finish_reason: null, ...choice }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
}
const begin = frame({ delta: { role: 'assistant', content: 'Well' } });
const rest =
  frame({ delta: { content: ' done' } }) +
  frame({ delta: {}, finish_reason: 'stop' }) +
  frame(undefined, { usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 } }) +
  'data: [DONE]\n\n';
/** The cost of an answer (7 tokens of input, 2 of output) at the prices below, in nano-dollars. */
const price = 7n * 1_000n + 2n * 10_000n;

const answers: Behaviour = socket =>
  void socket.write(Buffer.concat([Buffer.from(streamHead), chunk(begin + rest), Buffer.from(lastChunk)]));
const breaks = async (socket: Socket): Promise<void> => {
  socket.write(streamHead);
  socket.write(chunk(begin));
  await sleep(30);
  socket.destroy();
};
const refuses =
  (status: number, headers: Record<string, string> = {}): Behaviour =>
  socket =>
    void socket.write(whole(status, '{"error":{"message":"no"}}', headers));
const dies: Behaviour = socket => void socket.resetAndDestroy();

/** An upstream whose behaviour can change while it runs. */
class Changing {
  readonly raw: RawUpstream;
  now: Behaviour = answers;

  constructor(raw: RawUpstream) {
    this.raw = raw;
  }

  static async start(): Promise<Changing> {
    const slot: { it?: Changing } = {};
    const raw = await RawUpstream.start((socket, request) => slot.it?.now(socket, request));
    slot.it = new Changing(raw);
    return slot.it;
  }

  get count(): number {
    return this.raw.requests.length;
  }
}

const keyedNames = ['keyed', 'keyed401', 'keyed403', 'refused', 'limited'] as const;
const names = ['first', 'second', 'alone', 'heavy', 'light', 'narrow', 'shared', 'moody', ...keyedNames] as const;
type Name = (typeof names)[number];
const upstreams = new Map<Name, Changing>();
for (const name of names) upstreams.set(name, await Changing.start());
const findUpstream = (name: Name): Changing => upstreams.get(name) ?? expect.fail(name);

const routesByModel: Record<string, string> = {
  pair: '[{ provider: first, model: m, priority: 1 }, { provider: second, model: m, priority: 2 }]',
  alone: '[{ provider: alone, model: m }]',
  weighed: '[{ provider: heavy, model: m, weight: 3 }, { provider: light, model: m, weight: 1 }]',
  // The state of a key belongs to its provider, so each test has a separate provider.
  ...Object.fromEntries(keyedNames.map(name => [name, `[{ provider: ${name}, model: m }]`])),
  narrow: '[{ provider: narrow, model: m }]',
  shared: '[{ provider: shared, model: m }]',
  moody: '[{ provider: moody, model: m }]',
};
const settings: Partial<Record<Name, string>> = {
  ...Object.fromEntries(keyedNames.map(name => [name, 'api_key: [key-a, key-b, key-c]'])),
  // Nothing may give up waiting before the test has seen who waits.
  narrow: 'concurrency: 3, queue: 2, queue_timeout: 60s',
  shared: 'concurrency: 1, queue: 4, queue_timeout: 60s',
};
/** The gateway’s wall clock, with which its circuit breakers count. */
const clock = clockAhead(0);
let skippedMs = 0;
/** Moves the gateway’s clock forward. */
function skip(ms: number): void {
  skippedMs += ms;
  clock.set(new Date(Date.now() + skippedMs).toISOString());
}
const gateway: Gateway = await startGateway({
  environment: clock.environment,
  balance: '100',
  config: `
simulator: { enabled: false }
retries: 2
expose_route: true
providers:${names.map(name => `\n  ${name}: { protocol: chat, base_url: "${findUpstream(name).raw.baseUrl}", ${settings[name] ?? 'api_key: k'} }`).join('')}
models:${Object.entries(routesByModel)
    .map(
      ([id, routes]) => `
  - id: acme/${id}
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10 }
    routes: ${routes}`,
    )
    .join('')}
`,
});
/** Functions that stop what a failed test has left running. */
const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
  await endGateway(gateway);
  for (const { raw } of upstreams.values()) await raw.stop();
  clock.remove();
});

const body = (id: string, text = 'Do it'): Record<string, unknown> => ask(text, { model: `acme/${id}` });
const readRequestId = ({ headers }: { readonly headers: Headers }): string => headers.get('x-request-id') ?? '';
const readRoute = ({ headers }: { readonly headers: Headers }): string =>
  (headers.get('x-tollgate-route') ?? '').split('/')[0] ?? '';
const readErrorCode = (answer: Answer | Streamed): string | undefined =>
  ('body' in answer ? answer.body.error : answer.error)?.code;

async function isAvailable(id: string): Promise<boolean> {
  const response = await fetch(`${gateway.url}/v1/models/acme/${id}`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  return ((await response.json()) as { available: boolean }).available;
}

/** Sends a request and expects exactly one record for it. */
async function paidOnce(answer: Answer | Streamed): Promise<ActivityRecord> {
  const record = await readRecord(gateway, readRequestId(answer));
  expect([record.state, record.costNanoUsd]).toEqual([RecordState.COMPLETED, price]);
  return record;
}

let seeds = 0;

/** Starts clients that send requests without a pause, half of them for streams, until `stop` is called, which returns the answers. */
function load(id: string, key: string, clients: number): { stop(): Promise<(Answer | Streamed)[]> } {
  let isOver = false;
  const done = Promise.all(
    Array.from({ length: clients }, async (_, index) => {
      const seen: (Answer | Streamed)[] = [];
      const [send, user] = index % 2 === 0 ? [complete, 'takes whole answers'] : [stream, 'streams'];
      // Repeats of the same request count only once for the circuit breaker.
      while (!isOver) seen.push(await send(gateway, { ...body(id), user, seed: (seeds += 1) }, { key }));
      return seen;
    }),
  );
  const stop = async (): Promise<(Answer | Streamed)[]> => {
    isOver = true;
    return (await done).flat();
  };
  stops.push(stop);
  return { stop };
}

describe('a route that dies', () => {
  test('under load makes no request fail while another route works, and gets its traffic back later', async () => {
    const [first, second] = [findUpstream('first'), findUpstream('second')];
    const { key, id } = await makeKey(gateway);
    const running = load('pair', key, 6);
    await eventuallyWithin(15_000, () => first.count > 10);
    expect(second.count).toBe(0);
    // Streams break before their first event, because later they can't be repeated; other answers break in the middle.
    first.now = (socket, request) => (request.body.includes(':streams"') ? dies(socket, request) : breaks(socket));
    const diedAtMs = performance.now();
    // The circuit breaker opens; after the last attempts of running requests, the dead route gets no more requests.
    let requested = first.count;
    await eventuallyWithin(openMs - 1_000, async () => {
      const before = first.count;
      await sleep(1_000);
      requested = first.count;
      return requested === before && second.count > 20;
    });
    first.now = answers;
    // It gets none until ten seconds have passed, although it answers again.
    skip(Math.max(0, openMs - 2_500 - (performance.now() - diedAtMs)));
    await sleep(300);
    expect(first.count).toBe(requested);
    skip(openMs);
    await eventuallyWithin(15_000, () => first.count > requested + 20);
    const seen = await running.stop();
    expect([...new Set(seen.map(answer => `${answer.status} ${readErrorCode(answer)}`))]).toEqual(['200 undefined']);
    expect([...new Set(seen.map(({ text }) => text))]).toEqual(['Well done']);
    const last = await complete(gateway, body('pair'), { key });
    expect(readRoute(last)).toBe('first');
    // Each answer was paid once, however many attempts it took.
    const { balanceNanoUsd } = await spentBy(id, seen.length + 1);
    expect(balanceNanoUsd).toBe(BigInt(seen.length + 1) * price);
  });

  test('and is the model’s only route makes the model unavailable after five failures in a row, and available again later', async () => {
    const alone = findUpstream('alone');
    expect(await isAvailable('alone')).toBe(true);
    alone.now = refuses(500);
    const failures = await Promise.all(
      Array.from({ length: 5 }, (_, seed) => complete(gateway, { ...body('alone'), seed })),
    );
    const openedAtMs = performance.now();
    expect(failures.map(answer => [answer.status, readErrorCode(answer)])).toEqual(
      failures.map(() => [502, 'upstream_error']),
    );
    expect([alone.count, await isAvailable('alone')]).toEqual([15, false]);
    const refused = await complete(gateway, body('alone'));
    expect([refused.status, readErrorCode(refused), refused.ms < openMs / 2, alone.count]).toEqual([
      502,
      'model_unavailable',
      true,
      15,
    ]);
    for (const failure of failures) {
      expect(await readRecord(gateway, readRequestId(failure))).toMatchObject({
        state: RecordState.UPSTREAM_FAILED,
        costNanoUsd: 0n,
      });
    }
    alone.now = answers;
    skip(Math.max(0, openMs - 2_500 - (performance.now() - openedAtMs)));
    expect(await isAvailable('alone')).toBe(false);
    skip(2_500);
    await eventuallyWithin(15_000, () => isAvailable('alone'));
    await paidOnce(await complete(gateway, body('alone')));
    expect(await isAvailable('alone')).toBe(true);
  });
});

async function eventuallyWithin(ms: number, probe: () => boolean | Promise<boolean>): Promise<number> {
  for (const deadline = performance.now() + ms; performance.now() < deadline; await sleep(50)) {
    if (await probe()) return performance.now();
  }
  return expect.fail(`nothing within ${ms} ms`);
}

async function spentBy(apiKeyId: bigint, requests: number): Promise<{ balanceNanoUsd: bigint }> {
  const records: ActivityRecord[] = [];
  await eventually('all records', async () => {
    records.length = 0;
    for (let offset = 0; ; offset += 1_000) {
      const page = await gateway.account.listActivity({ apiKeyId, limit: 1_000, offset });
      records.push(...page.records);
      if (page.records.length < 1_000) break;
    }
    return records.length >= requests ? true : undefined;
  });
  expect(records.length).toBe(requests);
  return { balanceNanoUsd: records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n) };
}

test('routes with the same priority share the traffic by weight', async () => {
  const seen = [];
  for (let index = 0; index < 10; index += 1) {
    seen.push(...(await Promise.all(Array.from({ length: 20 }, () => complete(gateway, body('weighed'))))));
  }
  const heavy = seen.filter(answer => readRoute(answer) === 'heavy').length;
  // 150 of 200 are expected; 120 to 180 is five standard deviations.
  expect([heavy > 120, heavy < 180, findUpstream('heavy').count === heavy]).toEqual([true, true, true]);
});

describe('keys of a provider', () => {
  const used = (name: Name): string[] =>
    findUpstream(name)
      .raw.requests.splice(0)
      .map(({ headers }) => headers['authorization']?.slice('Bearer '.length) ?? '');

  test('are used by conversations: one stays at its key, and all keys are used', async () => {
    const keys = new Set<string | undefined>();
    for (let conversation = 0; conversation < 24; conversation += 1) {
      for (let turn = 0; turn < 2; turn += 1) await complete(gateway, body('keyed', `Conversation ${conversation}`));
      const both = used('keyed');
      expect([both.length, new Set(both).size]).toEqual([2, 1]);
      keys.add(both[0]);
    }
    expect(keys).toEqual(new Set(['key-a', 'key-b', 'key-c']));
  });

  test.each([
    [401, 'keyed401'],
    [403, 'keyed403'],
  ] as const)('one that is refused (%i) is replaced by the next, and the account pays once', async (status, name) => {
    findUpstream(name).now = (socket, request) =>
      /key-[ab]$/.test(request.headers['authorization'] ?? '')
        ? refuses(status)(socket, request)
        : answers(socket, request);
    for (let index = 0; index < 12; index += 1) await paidOnce(await complete(gateway, body(name, `Say ${index}`)));
    const all = used(name);
    expect(all.filter(key => key === 'key-c')).toHaveLength(12);
    const refused = all.filter(key => key !== 'key-c');
    expect(new Set(refused)).toEqual(new Set(['key-a', 'key-b']));
    // A wrong key was refused once, and is not used for some time; one that may not use the model is tried again after a second.
    if (status === 401) expect(refused).toHaveLength(2);
  });

  test('that are all refused are each tried once by a request; the answer is 502 and free, no circuit breaker opens, and the model stays available', async () => {
    findUpstream('refused').now = refuses(401);
    const failed = await stream(gateway, body('refused'));
    expect([failed.status, readErrorCode(failed)]).toEqual([502, 'upstream_error']);
    expect(used('refused').toSorted()).toEqual(['key-a', 'key-b', 'key-c']);
    expect((await readRecord(gateway, readRequestId(failed))).costNanoUsd).toBe(0n);
    for (let index = 0; index < 6; index += 1) {
      const later = await stream(gateway, body('refused'));
      expect([later.status, readErrorCode(later)]).toEqual([502, 'upstream_error']);
      expect(used('refused').toSorted()).toEqual(['key-a', 'key-b', 'key-c']);
    }
    expect(await isAvailable('refused')).toBe(true);
    const metrics = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
    expect(metrics).toContain('tollgate_route_breaker{provider="refused",model="acme/refused"} 0');
  });

  test('that are at their limit (429) are skipped at once for another key', async () => {
    findUpstream('limited').now = (socket, request) =>
      request.headers['authorization'] === 'Bearer key-c'
        ? answers(socket, request)
        : refuses(429, { 'retry-after': '8' })(socket, request);
    const began = performance.now();
    const order: string[][] = [];
    for (let index = 0; index < 12; index += 1) {
      await paidOnce(await complete(gateway, body('limited', `Say ${index}`)));
      order.push(used('limited'));
    }
    expect(order.map(keys => keys.at(-1))).toEqual(order.map(() => 'key-c'));
    expect(new Set(order.flat())).toEqual(new Set(['key-a', 'key-b', 'key-c']));
    expect(performance.now() - began).toBeLessThan(8_000);
  });
});

test('no more calls run at once than the provider’s limit: further ones wait in a queue, and beyond the queue they are refused', async () => {
  const narrow = findUpstream('narrow');
  const held: (() => void)[] = [];
  let most = 0;
  let running = 0;
  narrow.now = async (socket, request) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>(resolve => {
      held.push(resolve);
    });
    running -= 1;
    await answers(socket, request);
  };
  const calls = Array.from({ length: 8 }, (_, index) => (index % 2 === 0 ? complete : stream)(gateway, body('narrow')));
  await expect.poll(() => narrow.count).toBe(3);
  const refused: (Answer | Streamed)[] = [];
  for (const call of calls) void call.then(answer => refused.push(answer));
  await expect.poll(() => refused.length).toBe(3);
  expect(refused.map(answer => [answer.status, readErrorCode(answer), answer.headers.get('retry-after')])).toEqual(
    refused.map(() => [503, 'overloaded', '1']),
  );
  expect([refused.length, narrow.count]).toEqual([3, 3]);
  // No further call is refused, and none is sent.
  await sleep(200);
  expect([refused.length, narrow.count]).toEqual([3, 3]);
  for (let freed = 0; freed < 5; freed += 1) {
    await expect.poll(() => held.length).toBeGreaterThan(freed);
    held[freed]?.();
  }
  const all = await Promise.all(calls);
  for (const answer of all.filter(({ status }) => status === 200)) await paidOnce(answer);
  expect([all.filter(({ status }) => status === 200).length, most]).toEqual([5, 3]);
});

test('an account that fills the queue of a provider delays only itself: another account’s request takes a place from it, and is sent next but one', async () => {
  const shared = findUpstream('shared');
  const other = { ...gateway, apiKey: await createAccount(gateway, '1') };
  const held: (() => void)[] = [];
  const sent: string[] = [];
  shared.now = async (socket, request) => {
    sent.push(/busy \d|other/.exec(request.body.toString())?.[0] ?? '');
    await new Promise<void>(resolve => {
      held.push(resolve);
    });
    await answers(socket, request);
  };
  const busy: Promise<Answer>[] = [];
  for (let number = 0; number < 5; number += 1) {
    busy.push(complete(gateway, ask(`busy ${number}`, { model: 'acme/shared' })));
    // They wait in this order.
    if (number === 0) await expect.poll(() => sent).toEqual(['busy 0']);
    else await sleep(50);
  }
  const others = complete(other, ask('other', { model: 'acme/shared' }));
  const displaced = await busy[4];
  expect([displaced?.status, displaced === undefined ? '' : readErrorCode(displaced)]).toEqual([503, 'overloaded']);
  for (let freed = 0; freed < 5; freed += 1) {
    await expect.poll(() => held.length).toBeGreaterThan(freed);
    held[freed]?.();
  }
  const statuses = (await Promise.all([...busy.slice(0, 4), others])).map(({ status }) => status);
  expect([statuses, sent]).toEqual([
    [200, 200, 200, 200, 200],
    ['busy 0', 'busy 1', 'other', 'busy 2', 'busy 3'],
  ]);
});

describe('a request that is tried again', () => {
  const moody = findUpstream('moody');
  const inTurn = (...behaviours: readonly Behaviour[]): void => {
    let turn = 0;
    moody.raw.requests.length = 0;
    moody.now = (socket, request) => {
      turn += 1;
      return (behaviours[turn - 1] ?? answers)(socket, request);
    };
  };

  test.each<[string, readonly Behaviour[]]>([
    ['after two errors', [refuses(500), refuses(503)]],
    ['after 408 and 409', [refuses(408), refuses(409)]],
    ['after two resets', [dies, dies]],
    ['after the pause that the upstream requested', [refuses(429, { 'retry-after': '1' })]],
  ])('is answered and paid once: %s', async (_, faults) => {
    for (const send of [complete, stream]) {
      inTurn(...faults);
      const answer = await send(gateway, body('moody'));
      expect([answer.status, answer.text, moody.count]).toEqual([200, 'Well done', faults.length + 1]);
      await paidOnce(answer);
    }
  });

  test('is sent as the same bytes each time', async () => {
    inTurn(refuses(500), refuses(500));
    await complete(gateway, { ...body('moody'), my_own_field: [1.5, 'é'] });
    expect(new Set(moody.raw.requests.map(request => request.body)).size).toBe(1);
    expect(JSON.parse(moody.raw.requests[0]?.body ?? '')).toMatchObject({ my_own_field: [1.5, 'é'] });
  });

  test('is repeated after a failure in the middle if the answer is whole, but not if it is a stream', async () => {
    inTurn(breaks, breaks);
    const answer = await complete(gateway, body('moody'));
    expect([answer.status, answer.text, moody.count]).toEqual([200, 'Well done', 3]);
    await paidOnce(answer);
    inTurn(breaks);
    const broken = await stream(gateway, body('moody'));
    expect([broken.status, broken.text, readErrorCode(broken), moody.count]).toEqual([
      200,
      'Well',
      'upstream_error',
      1,
    ]);
    expect((await readRecord(gateway, readRequestId(broken))).usage?.outputTokens).toBe(1);
  });

  /** Returns how many attempts at the provider have failed so far. */
  const countFailed = async (): Promise<number> => {
    const page = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
    const counts = page.matchAll(/^tollgate_upstream_attempts_total\{provider="moody",.*result="(\w+)"\} (\d+)$/gm);
    return counts.reduce((sum, [, result, count]) => sum + (result === 'completed' ? 0 : Number(count)), 0);
  };

  /** Disconnects in the pause after the first attempt, and returns the key's id; undefined if the next attempt came earlier, because the pause is random. */
  const leaveInPause = async (fault: Behaviour): Promise<bigint | undefined> => {
    inTurn(fault, fault, fault);
    const failedBefore = await countFailed();
    const { key, id } = await makeKey(gateway);
    const leave = new AbortController();
    const left = complete(gateway, body('moody'), { key, signal: leave.signal }).catch(() => 'left');
    // Whoever leaves before the gateway has seen the failure pays for what had arrived.
    await expect.poll(countFailed, { interval: 5 }).toBe(failedBefore + 1);
    leave.abort();
    await left;
    // The gateway may have begun the next attempt although the upstream has not seen it yet: once the request is settled, it is counted.
    await eventually('the record', async () => (await gateway.account.listActivity({ apiKeyId: id })).records[0]);
    return (await countFailed()) === failedBefore + 1 && moody.count === 1 ? id : undefined;
  };

  test.each<[string, Behaviour]>([
    ['a refusal', refuses(503, { 'retry-after': '9' })],
    ['a break', breaks],
  ])('whose client disconnects in the pause after %s is free', async (_, fault) => {
    let apiKeyId: bigint | undefined;
    for (let turn = 0; turn < 10 && apiKeyId === undefined; turn += 1) apiKeyId = await leaveInPause(fault);
    const id = apiKeyId ?? expect.fail('ten pauses were too short');
    const records = await eventually('the record', async () => {
      const page = await gateway.account.listActivity({ apiKeyId: id });
      return page.records.length > 0 ? page.records : undefined;
    });
    expect(records.map(({ state, costNanoUsd }) => [state, costNanoUsd])).toEqual([[RecordState.CLIENT_ABORTED, 0n]]);
  });

  test('and fails every time is free', async () => {
    inTurn(breaks, breaks, breaks);
    const failed = await complete(gateway, body('moody'));
    expect([failed.status, readErrorCode(failed), moody.count]).toEqual([502, 'upstream_error', 3]);
    expect(await readRecord(gateway, readRequestId(failed))).toMatchObject({
      costNanoUsd: 0n,
      state: RecordState.UPSTREAM_FAILED,
    });
    inTurn();
    await paidOnce(await complete(gateway, body('moody')));
  });
});
