/** Answers of idempotency keys that gateways share through PostgreSQL: every gateway repeats them, free, whatever other accounts store. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { newAccount, newKey, readDollars } from '../e2e/account-client.ts';
import { type Gateway, makeHome, startGateway } from '../gateway.ts';
import { expectSound } from './lost-gateways.ts';
import { createDatabase } from './server.ts';

// An account may use a quarter of `replay_bytes`.
const config = `
simulator: { tokens_per_second: 0 }
content: { max_bytes: 1MiB, replay_bytes: 1MiB }
`;
const home = makeHome();
const gateways: Gateway[] = [];
let url: string;

/** Starts a further gateway on the database. */
async function start(): Promise<Gateway> {
  const { folder, dataDir } = makeHome();
  const environment = { TOLLGATE_DATABASE_URL: url };
  const gateway = await startGateway({ home: { ...home, folder, dataDir }, config, environment });
  gateways.push(gateway);
  return gateway;
}

beforeAll(async () => {
  url = await createDatabase(inject('postgresUrl'));
  for (let count = 0; count < 2; count += 1) await start();
});

afterAll(async () => {
  for (const gateway of gateways) expect((await gateway.stop()).code).toBe(0);
  await expectSound(url);
});

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly requestId: string | null;
  readonly cost: string | null;
  readonly isRepeat: boolean;
}

/** Sends a request with the headers. */
async function send(to: Gateway, path: string, body: object, headers: Record<string, string>): Promise<Answer> {
  const response = await fetch(to.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    text: await response.text(),
    requestId: response.headers.get('x-request-id'),
    cost: response.headers.get('x-tollgate-cost'),
    isRepeat: response.headers.get('idempotent-replayed') === 'true',
  };
}

const makeMessages = (tokens: number) => [{ role: 'user', content: `x\n!sim tokens=${tokens}` }];
const chat = { model: 'sim/large', messages: makeMessages(20) };
const requests: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', chat],
  ['/v1/chat/completions', { ...chat, stream: true }],
  ['/v1/messages', { model: 'sim/large', max_tokens: 50, messages: makeMessages(20), stream: true }],
  ['/v1/responses', { model: 'sim/large', input: 'x\n!sim tokens=20' }],
  ['/v1/images/generations', { model: 'sim/image', prompt: 'a harbour', size: '256x256', response_format: 'b64_json' }],
];
/** An answer of about 150 kB, of which an account may keep one. */
const large = { model: 'sim/large', n: 8, messages: makeMessages(4_000) };
/** A response that keeps its input of 200 kB. */
const stored = { model: 'sim/large', input: `${'word '.repeat(40_000)}\n!sim tokens=1` };

/** An account with a key, and how it sends a request. */
async function makeCaller() {
  const [one] = gateways as [Gateway];
  const { managementKey } = await newAccount(one, 100);
  const { key } = await newKey(one, {}, managementKey);
  return {
    dollars: () => readDollars(one, managementKey),
    send: (to: Gateway, path: string, body: object, idempotencyKey?: string) =>
      send(to, path, body, {
        authorization: `Bearer ${key}`,
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      }),
    get: async (to: Gateway, path: string) =>
      (await fetch(to.url + path, { headers: { authorization: `Bearer ${key}` } })).status,
  };
}

/** Sends all requests with idempotency keys. Returns a function that expects each to be repeated by a gateway, free. */
async function sendKeyed(caller: Awaited<ReturnType<typeof makeCaller>>) {
  const [one] = gateways as [Gateway];
  const firsts: Answer[] = [];
  for (const [index, [path, body]] of requests.entries()) {
    firsts.push(await caller.send(one, path, body, `key ${index}`));
  }
  expect(firsts.map(({ status, isRepeat }) => [status, isRepeat])).toEqual(requests.map(() => [200, false]));
  return {
    responseId: String((JSON.parse(firsts[3]?.text ?? '') as { id: string }).id),
    expectRepeats: async (to: Gateway): Promise<void> => {
      const before = await caller.dollars();
      for (const [index, [path, body]] of requests.entries()) {
        expect(await caller.send(to, path, body, `key ${index}`)).toEqual({ ...firsts[index], isRepeat: true });
      }
      expect(await caller.dollars()).toBe(before);
    },
  };
}

test('an answer is repeated, free, by the gateway that made it and by every other one, also after other accounts have filled the stores', async () => {
  const [one, other] = gateways as [Gateway, Gateway];
  const quiet = await makeCaller();
  const greedy = await makeCaller();
  const kept = await sendKeyed(quiet);
  const greedyKept = await sendKeyed(greedy);
  for (const gateway of gateways) await kept.expectRepeats(gateway);

  // The space for idempotency keys: once an account has used its part, its requests with further keys are refused, and free.
  const before = await greedy.dollars();
  const statuses: number[] = [];
  let afterFirst = before;
  for (let count = 0; count < 12; count += 1) {
    for (const gateway of [one, other]) {
      const { status } = await greedy.send(gateway, '/v1/chat/completions', large, `large ${statuses.length}`);
      statuses.push(status);
      if (status === 200) afterFirst = await greedy.dollars();
    }
  }
  // One for each gateway, because it counts what it has stored itself until it measures again, and one more if it measures while an answer is being stored.
  const answered = statuses.filter(status => status === 200).length;
  expect(answered).toBeLessThanOrEqual(4);
  expect(statuses.filter(status => status === 503)).toHaveLength(24 - answered);
  expect(await greedy.dollars()).toBe(afterFirst);
  for (const [index, gateway] of gateways.entries()) {
    await kept.expectRepeats(gateway);
    const next = await quiet.send(gateway, '/v1/chat/completions', chat, `after ${index}`);
    expect([next.status, next.isRepeat]).toEqual([200, false]);
  }

  // The space for everything else: more than all of it.
  const ids: string[] = [];
  for (let count = 0; count < 8; count += 1) {
    const { status, text } = await greedy.send(one, '/v1/responses', stored);
    expect(status).toBe(200);
    ids.push(String((JSON.parse(text) as { id: string }).id));
  }
  // A gateway measures the space some seconds after its start, then every minute.
  const third = await start();
  await expect.poll(() => greedy.get(third, `/v1/responses/${ids[0]}`), { timeout: 30_000 }).toBe(404);
  for (const gateway of gateways) {
    await kept.expectRepeats(gateway);
    await greedyKept.expectRepeats(gateway);
    expect(await quiet.get(gateway, `/v1/responses/${kept.responseId}`)).toBe(200);
    expect(await greedy.get(gateway, `/v1/responses/${ids.at(-1)}`)).toBe(200);
  }
});
