/** How many patterns the limits of an account may have, so that counting a request takes little time. */
import { afterAll, expect, test } from 'vitest';
import { endGateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({});
afterAll(() => endGateway(gateway));

function patterns(count: number, name: string): string[] {
  return Array.from({ length: count }, (_, at) => `${name}-${at}/*`);
}

async function send(method: string, path: string, body: object): Promise<{ status: number; text: string }> {
  const reply = await fetch(`${gateway.url}/v1/account/limits${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.managementKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  return { status: reply.status, text };
}

function limit(scope: object, models: string[]): object {
  return { scope, unit: 'requests', window: 'day', max: 1_000_000, models };
}

test('at most 1,000 patterns can count one request, over its account, group and key', async () => {
  const [one, two] = [await makeKey(gateway), await makeKey(gateway)];
  const ofKey = (key: bigint, count: number, name: string) =>
    send('POST', '', limit({ type: 'key', id: Number(key) }, patterns(count, name)));
  const ofAccount = await send('POST', '', limit({ type: 'account' }, patterns(500, 'a')));
  expect(ofAccount.status).toBeLessThan(300);
  const { limits } = await gateway.account.listLimits({});
  const id = limits.at(-1)?.limitId;
  expect((await ofKey(one.id, 400, 'b')).status).toBeLessThan(300);
  // Another key has patterns of its own.
  const second = await ofKey(two.id, 400, 'c');
  expect(second.status).toBeLessThan(300);
  const refused = await ofKey(one.id, 200, 'd');
  expect([refused.status, refused.text.includes('1000 patterns')]).toEqual([422, true]);
  expect((await ofKey(two.id, 50, 'e')).status).toBeLessThan(300);
  const grown = await send('PATCH', `/${id}`, { models: patterns(900, 'a') });
  expect([grown.status, grown.text.includes('1000 patterns')]).toEqual([422, true]);
  const shrunk = await send('PATCH', `/${id}`, { models: patterns(450, 'a') });
  expect(shrunk.status).toBe(200);
});

test('a pattern has at most 16 `*`, and hostile ones take no time', async () => {
  const wild = (stars: number): string => `${'*x'.repeat(stars)}Z`;
  const refused = await send('POST', '', limit({ type: 'account' }, [wild(17)]));
  expect([refused.status, refused.text.includes('at most 16 *')]).toEqual([422, true]);
  expect((await send('POST', '', limit({ type: 'account' }, [wild(16)]))).status).toBeLessThan(300);
});
