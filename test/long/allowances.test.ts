/** 1,000 requests at once over three gateways on one PostgreSQL: as many are answered as the balance or limit allows, and the others are refused with 429. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeKey } from '../gateway.ts';
import { verifyDatabase } from '../../src/ledger/postgres/verify.ts';
import { Fleet } from '../postgres/fleet.ts';
import { hasPostgres } from '../postgres/server.ts';

const requests = 1000;
let fleet: Fleet;

beforeAll(async () => {
  if (hasPostgres) fleet = await Fleet.start();
});

afterAll(async () => {
  if (!hasPostgres) return;
  expect(await verifyDatabase(fleet.server.url)).toEqual([]);
  if (process.env['SHOW_LOGS'] !== undefined) for (const { gateway } of fleet.members) console.log(gateway.printed());
  await fleet.stop();
});

interface Answer {
  readonly status: number;
  readonly body: {
    readonly usage?: { readonly cost: number; readonly total_tokens: number };
    readonly error?: { readonly code: string; readonly message: string };
  };
}

async function ask(key: string, line: string, maxTokens: number): Promise<readonly Answer[]> {
  const messages = [{ role: 'user', content: `x\n!sim ${line}` }];
  const body = JSON.stringify({ model: 'sim/large', max_tokens: maxTokens, messages });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const one = async (index: number): Promise<Answer> => {
    const { url } = fleet.member(index).gateway;
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  };
  return Promise.all(Array.from({ length: requests }, (_, index) => one(index)));
}

const split = (answers: readonly Answer[]) => ({
  paid: answers.filter(({ status }) => status === 200),
  refusals: new Set(
    answers
      .filter(({ status }) => status !== 200)
      .map(({ status, body: { error } }) => (status === 429 ? `429 ${error?.code}` : `${status} ${error?.message}`)),
  ),
});

test.runIf(hasPostgres)('a balance of five cents pays for at least five requests, and is never overdrawn', async () => {
  const { gateway } = fleet.member(0);
  const funds = 50_000_000n;
  const { key, id } = await makeKey(gateway, { balanceNanoUsd: funds });
  // Each costs at most about 0.82 cents, so the balance pays for about six. They are slow, so that they run at the same time.
  const { paid, refusals } = split(await ask(key, 'tokens=2000 tps=400', 2000));
  expect(refusals).toEqual(new Set(['429 insufficient_balance']));
  expect(paid.length).toBeGreaterThanOrEqual(5);
  const spent = paid.reduce((sum, { body }) => sum + BigInt(Math.round((body.usage?.cost ?? 0) * 1e9)), 0n);
  const { key: shown } = await fleet.member(1).gateway.account.getKey({ apiKeyId: id });
  expect(shown?.balanceNanoUsd).toBe(funds - spent);
  expect(spent).toBeLessThanOrEqual(funds);
});

test.runIf(hasPostgres)('a limit of 100 requests a day admits exactly 100', async () => {
  const { key } = await makeKey(fleet.member(1).gateway, { dailyLimit: 100n });
  const { paid, refusals } = split(await ask(key, 'tokens=5', 16));
  expect(refusals).toEqual(new Set(['429 rate_limit']));
  expect(paid).toHaveLength(100);
});

test.runIf(hasPostgres)('a limit of 10,000 tokens a minute is nearly used up and never exceeded', async () => {
  const { key, id } = await makeKey(fleet.member(2).gateway);
  const settings = { max: 10_000n, timeZone: 'UTC', endUsers: 'all', action: 'refuse' };
  const limit = { scope: 'key', scopeId: id, unit: 'tokens', window: 'minute', settings };
  await fleet.member(2).gateway.account.createLimit({ limit });
  // Each runs for longer than all admissions take, so each counts with the tokens that it reserves.
  const { paid, refusals } = split(await ask(key, 'tokens=400 tps=20', 400));
  expect(refusals).toEqual(new Set(['429 rate_limit']));
  const used = paid.reduce((sum, { body }) => sum + (body.usage?.total_tokens ?? 0), 0);
  const each = paid[0]?.body.usage?.total_tokens ?? 0;
  expect(used).toBeLessThanOrEqual(10_000);
  // By their usage, up to two more would fit: each reserves more tokens than it uses, because its input is only estimated.
  expect(used).toBeGreaterThan(10_000 - 2 * each);
});
