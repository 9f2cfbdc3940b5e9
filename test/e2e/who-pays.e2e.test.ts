/** Who pays for what (docs/accounting.md "Settlement"): every way in which an answer can end, for every interface, streamed and not. The account's records are checked. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type RecordDetailJson, call, readDollars, newAccount, newKey, type RecordJson } from './account-client.ts';
import { post } from './chat-client.ts';
import { eventually } from './upstream-callers.ts';

const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\nretries: 0\ntimeouts: { idle: 1s }\n',
  balance: '100',
});
afterAll(() => endGateway(gateway));

interface Interface {
  readonly name: string;
  readonly path: string;
  readonly more: object;
}
const interfaces: readonly Interface[] = [
  { name: 'Chat', path: '/v1/chat/completions', more: {} },
  { name: 'Messages', path: '/v1/messages', more: { max_tokens: 3000 } },
];

/** The expected record of a request. `some`: more than nothing and less than all. */
interface Row {
  readonly what: string;
  /** The steering line. */
  readonly line: string;
  /** Additional fields of the request. */
  readonly more?: object;
  /** When the client disconnects; absent: it does not. */
  readonly leaveAfterMs?: number;
  readonly status?: { readonly streamed: number; readonly whole: number };
  readonly state: { readonly streamed: string; readonly whole: string };
  /** The output tokens that are charged. */
  readonly output: { readonly streamed: number | 'some'; readonly whole: number | 'some' };
  /** Whether the input is charged. */
  readonly input: { readonly streamed: boolean; readonly whole: boolean };
  /** Who counted the tokens; default `reported`. */
  readonly source?: string;
}
const both = <T>(value: T): { readonly streamed: T; readonly whole: T } => ({ streamed: value, whole: value });
const ok = both(200);
const failed = { streamed: 200, whole: 502 };

const table: readonly Row[] = [
  { what: 'delivered whole', line: 'tokens=40', state: both('completed'), output: both(40), input: both(true) },
  {
    what: 'cut by the client’s limit',
    line: 'tokens=40',
    more: { max_tokens: 20 },
    state: both('incomplete'),
    output: both(20),
    input: both(true),
  },
  {
    what: 'cut by the gateway where the upstream ignores the limit',
    line: 'tokens=900 ignore=max_tokens',
    more: { max_tokens: 20 },
    state: both('incomplete'),
    output: both(20),
    input: both(true),
  },
  {
    what: 'refused by the model',
    line: 'finish=refusal tokens=12',
    state: both('incomplete'),
    output: both('some'),
    input: both(true),
  },
  {
    what: 'without a report of usage',
    line: 'tokens=30 usage=none',
    state: both('completed'),
    output: both('some'),
    input: both(true),
    source: 'estimated',
  },
  {
    what: 'left by its client',
    line: 'tokens=2000 tps=100',
    leaveAfterMs: 800,
    state: both('client_aborted'),
    output: both('some'),
    input: both(true),
    source: 'estimated',
  },
  {
    what: 'left by its client before the first event',
    line: 'delay_ms=20000',
    leaveAfterMs: 300,
    state: both('client_aborted'),
    output: both(0),
    input: both(true),
    source: 'estimated',
  },
  {
    what: 'failed before any output',
    line: 'status=500',
    status: both(502),
    state: both('upstream_failed'),
    output: both(0),
    input: both(false),
  },
  {
    what: 'failed after some output',
    line: 'tokens=50 fail=5',
    status: failed,
    state: both('upstream_failed'),
    output: { streamed: 'some', whole: 0 },
    input: { streamed: true, whole: false },
  },
  {
    what: 'cut off by its upstream',
    line: 'tokens=50 cut=5',
    status: failed,
    state: both('upstream_failed'),
    output: { streamed: 'some', whole: 0 },
    input: { streamed: true, whole: false },
  },
  {
    what: 'stalled by its upstream',
    line: 'tokens=50 stall=5',
    status: failed,
    state: both('upstream_failed'),
    output: { streamed: 'some', whole: 0 },
    input: { streamed: true, whole: false },
  },
  {
    what: 'paused by its upstream and continued',
    line: 'tokens=15 finish=pause',
    state: both('completed'),
    output: both('some'),
    input: both(true),
  },
];

/** Makes an account for one request, so that the request's record is its only one. */
async function makeAccount() {
  const { accountId, managementKey } = await newAccount(gateway, 1);
  const { key } = await newKey(gateway, {}, managementKey);
  const isHeld = async (): Promise<true | undefined> => {
    const { accounts } = await gateway.admin.listAccounts({});
    const account = accounts.find(each => each.accountId === accountId);
    return account !== undefined && account.heldNanoUsd > 0n ? true : undefined;
  };
  const records = async () =>
    (await call<{ data: RecordJson[] }>(gateway, 'GET', '/activity', { key: managementKey })).body.data;
  return { managementKey, key, records, isHeld };
}

async function ask(
  { path, more }: Interface,
  row: Row,
  { key, stream, isHeld }: { key: string; stream: boolean; isHeld?: () => Promise<true | undefined> },
): Promise<number> {
  const body = {
    model: 'sim/large',
    ...more,
    ...row.more,
    stream,
    messages: [{ role: 'user', content: `Tolls\n!sim ${row.line}` }],
  };
  const leave = new AbortController();
  try {
    const requested = post(gateway, path, body, { key, signal: leave.signal });
    const { leaveAfterMs } = row;
    if (leaveAfterMs !== undefined && isHeld !== undefined) {
      // A request that is left before it is admitted has no record.
      void eventually('the hold', isHeld)
        .then(() => sleep(leaveAfterMs))
        .then(() => leave.abort());
    }
    const response = await requested;
    await response.text();
    return response.status;
  } catch (thrown) {
    if (row.leaveAfterMs === undefined) throw thrown;
    return 0;
  }
}

describe.each(interfaces)('$name', requested => {
  describe.each([
    ['streamed', true],
    ['whole', false],
  ] as const)('%s', (delivery, stream) => {
    test.concurrent.each(table)('an answer that is $what', async row => {
      const { managementKey, key, records, isHeld } = await makeAccount();
      const status = await ask(requested, row, { key, stream, isHeld });
      if (row.leaveAfterMs === undefined) expect(status).toBe((row.status ?? ok)[delivery]);
      let [record] = await records();
      for (const deadline = performance.now() + 20_000; record === undefined && performance.now() < deadline;) {
        await sleep(30);
        [record] = await records();
      }
      expect(await records()).toHaveLength(1);
      const id = record?.request_id ?? '';
      const { body } = await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey });
      const output = row.output[delivery];
      expect([body.state, body.input_tokens > 0]).toEqual([row.state[delivery], row.input[delivery]]);
      if (output === 'some') {
        expect(body.output_tokens).toBeGreaterThan(0);
        expect(body.output_tokens).toBeLessThan(1000);
      } else {
        expect(body.output_tokens).toBe(output);
      }
      if (row.source !== undefined) expect(body.usage_source).toBe(row.source);
      // sim/large costs 1 dollar per million tokens of input and 4 of output.
      const nano = body.input_tokens * 1000 + body.output_tokens * 4000;
      expect([Math.round(body.cost * 1e9), body.written_off]).toEqual([nano, 0]);
      expect(Math.round((1 - (await readDollars(gateway, managementKey))) * 1e9)).toBe(nano);
    });
  });
});

test.each(interfaces)(
  'a request that is refused before its model is called leaves no record ($name)',
  async requested => {
    const { managementKey, key, records } = await makeAccount();
    for (const row of ['status=400', 'status=422', 'nonsense=1']) {
      const refused: Row = { what: '', line: row, state: both(''), output: both(0), input: both(false) };
      for (const stream of [false, true]) expect(await ask(requested, refused, { key, stream })).toBe(400);
    }
    expect(await records()).toEqual([]);
    expect(await readDollars(gateway, managementKey)).toBe(1);
  },
);

describe.each([false, true])('streamed: %s', stream => {
  test.each(interfaces)(
    'an answer is cut when the money is used up, and nothing is written off ($name)',
    async requested => {
      const { managementKey } = await newAccount(gateway, 0.0002);
      const { key } = await newKey(gateway, {}, managementKey);
      const row: Row = { what: '', line: 'tokens=2000', state: both(''), output: both(0), input: both(true) };
      expect(await ask(requested, row, { key, stream })).toBe(200);
      const { data } = (await call<{ data: RecordJson[] }>(gateway, 'GET', '/activity', { key: managementKey })).body;
      const path = `/activity/${data[0]?.request_id}`;
      const { body } = await call<RecordDetailJson>(gateway, 'GET', path, { key: managementKey });
      expect([body.state, body.written_off]).toEqual(['incomplete', 0]);
      expect(body.output_tokens).toBeGreaterThan(16);
      expect(body.cost).toBeLessThanOrEqual(0.0002);
      expect(await readDollars(gateway, managementKey)).toBeCloseTo(0.0002 - body.cost, 9);
    },
  );
});
