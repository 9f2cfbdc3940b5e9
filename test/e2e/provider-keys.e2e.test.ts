/** Requests that share a provider's keys (docs/providers.md "Keys that rest"): nobody gets an error because of another's request. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';
import { newAccount, newKey } from './account-client.ts';
import { ask, complete } from './chat-client.ts';

const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** How often each prompt has come. */
const attempts = new Map<string, number>();
/** The prompts, in the order in which they came. */
const order: string[] = [];
/** When each came. */
const times: number[] = [];
/** How many of the next requests get 429, with which headers. */
let limit: { readonly headers: Record<string, string>; left: number } = { headers: {}, left: 0 };

/** Each prompt says how its attempts are answered: "7: 429 500 200"; the last status also answers all further attempts. The wait of a 429 is 50 ms. */
const upstream = await RawUpstream.start((socket, request) => {
  const prompt = /"(\d+: [\d ]+)"/.exec(request.body)?.[1] ?? '';
  const statuses = prompt
    .slice(prompt.indexOf(' ') + 1)
    .split(' ')
    .map(Number);
  const attempt = attempts.get(prompt) ?? 0;
  attempts.set(prompt, attempt + 1);
  order.push(prompt);
  times.push(performance.now());
  const isLimited = limit.left > 0;
  limit.left -= 1;
  const status = isLimited ? 429 : (statuses[Math.min(attempt, statuses.length - 1)] ?? 200);
  const body = status === 200 ? answer : JSON.stringify({ error: { message: `status ${status}` } });
  const headers = isLimited ? limit.headers : status === 429 ? { 'retry-after-ms': '50' } : {};
  socket.write(whole(status, body, headers));
});
const provider = `protocol: chat, base_url: "${upstream.baseUrl}"`;
const gateway: Gateway = await startGateway({
  config: `
simulator: { enabled: false }
retries: 2
expose_route: true
providers:
  single: { ${provider}, api_key: only }
  own: { ${provider}, api_key: only }
  pair: { ${provider}, api_key: [first, second] }
models:${['single', 'own', 'pair'].map(name => `\n  - { id: acme/${name}, pricing: { input: 1, output: 1 }, routes: [{ provider: ${name}, model: m }] }`).join('')}
  - { id: acme/other, pricing: { input: 1, output: 1 }, routes: [{ provider: own, model: n }] }
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});
beforeEach(() => {
  order.length = 0;
  times.length = 0;
  limit = { headers: {}, left: 0 };
});

const newUser = async (): Promise<string> => {
  const { managementKey } = await newAccount(gateway, 1);
  return (await newKey(gateway, {}, managementKey)).key;
};
const users = await Promise.all(Array.from({ length: 8 }, newUser));
const [first = '', second = '', third = ''] = users;

let prompts = 0;
interface Sent {
  readonly status: number;
  readonly code: string | undefined;
  readonly retryAfter: string | null;
  readonly number: number;
}
async function send(statuses: string, key: string, model: string): Promise<Sent> {
  prompts += 1;
  const number = prompts;
  const { status, body, headers } = await complete(
    gateway,
    ask(`${prompts}: ${statuses}`, { model: `acme/${model}` }),
    { key },
  );
  const code = status === 200 ? undefined : body.error.code;
  return { number, status, code, retryAfter: headers.get('retry-after') };
}

/** The ways in which attempts of a request are answered, and what its client gets. */
const scripts: readonly (readonly [statuses: string, status: number])[] = [
  ['200', 200],
  ['429 200', 200],
  ['403', 502],
  ['401', 502],
  ['402', 502],
  ['500 200', 200],
  ['500', 502],
  ['429 429 200', 200],
  ['429', 502],
  ['404', 502],
  ['429 403', 502],
  ['500 429 200', 200],
  ['400', 400],
];

test('eight accounts on one key that answers 429, 403, 401 and 500 in turns: each gets what its own request brings', async () => {
  // A fixed sequence that looks random, different for each account.
  let seed = 7;
  const next = (): number => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  const plans = users.map(() =>
    Array.from({ length: 26 }, () => scripts[Math.floor(next() * scripts.length)] ?? (['200', 200] as const)),
  );
  const wrong: unknown[] = [];
  await Promise.all(
    users.map(async (user, index) => {
      for (const [statuses, status] of plans[index] ?? []) {
        const got = await send(statuses, user, 'single');
        if (got.status !== status || got.code === 'model_unavailable') wrong.push({ statuses, ...got });
      }
    }),
  );
  expect(wrong).toEqual([]);
  expect(order.length).toBeGreaterThan(8 * 26);
}, 60_000);

describe('a provider whose only key is at its limit', () => {
  test('without a retry-after: the requests of others wait for a second and are answered; another model is not concerned', async () => {
    limit = { headers: {}, left: 1 };
    const opening = send('200', first, 'own');
    await expect.poll(() => order.length).toBe(1);
    const [waited, other] = await Promise.all([send('200', second, 'own'), send('200', third, 'other')]);
    expect([(await opening).status, waited.status, other.status]).toEqual([200, 200, 200]);
    const { number } = await opening;
    expect(order.map(prompt => Number.parseInt(prompt, 10) - number)).toEqual([0, 2, 0, 1]);
    const [begun = 0, , again = 0] = times;
    expect(again - begun).toBeGreaterThanOrEqual(950);
  });

  test('for longer than requests wait: its requests get 502 with the wait at once', async () => {
    limit = { headers: { 'retry-after': '45' }, left: 1 };
    const refused = await send('200', first, 'own');
    expect([refused.status, refused.code, refused.retryAfter]).toEqual([502, 'upstream_error', '45']);
    const later = await send('200', second, 'own');
    expect([later.status, later.code, order.length]).toEqual([502, 'model_unavailable', 1]);
    expect(Number(later.retryAfter)).toSatisfy((seconds: number) => seconds > 30 && seconds <= 45);
  });

  test('accounts that wait are served in rotation', async () => {
    limit = { headers: { 'retry-after': '2' }, left: 1 };
    const opening = send('200', first, 'single');
    await expect.poll(() => order.length).toBe(1);
    const many = Array.from({ length: 6 }, () => send('200', second, 'single'));
    await sleep(100);
    const one = send('200', third, 'single');
    const all = await Promise.all([opening, ...many, one]);
    expect(all.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    const place = order.findIndex(prompt => prompt.startsWith(`${all.at(-1)?.number}:`));
    // After the request that met the limit, and one of the other account.
    expect([place >= 2, place <= 4]).toEqual([true, true]);
  });
});

test('all turns of a conversation use the same key; conversations are spread over the keys', async () => {
  const routes = new Set<string>();
  for (let conversation = 0; conversation < 12; conversation += 1) {
    prompts += 1;
    const opening = { role: 'user', content: `${prompts}: 200` };
    const turns = [opening];
    const seen = new Set<string | null>();
    for (let turn = 0; turn < 3; turn += 1) {
      const { headers, status } = await complete(gateway, { model: 'acme/pair', messages: turns }, { key: first });
      expect(status).toBe(200);
      seen.add(headers.get('x-tollgate-route'));
      turns.push({ role: 'assistant', content: 'Hi' }, { role: 'user', content: `${turn}` });
    }
    expect(seen.size).toBe(1);
    for (const route of seen) routes.add(route ?? '');
  }
  expect(routes).toEqual(new Set(['pair#1/m', 'pair#2/m']));
});

test('a key that may not use a model rests for it, the other key answers; what others met is no reason to fail', async () => {
  expect((await send('403 200', first, 'pair')).status).toBe(200);
  const listed = await gateway.cli(['providers', '--json']);
  const { data } = listed.json as { data: { name: string; keys: { state: string }[] }[] };
  expect(data.find(({ name }) => name === 'pair')?.keys.map(({ state }) => state)).toEqual(['resting', 'working']);
  // Each is refused by a key, and tries the other one, although that rests because it refused others.
  const all = await Promise.all(users.map(user => send('403 200', user, 'pair')));
  expect(all.map(({ status }) => status)).toEqual(users.map(() => 200));
});
