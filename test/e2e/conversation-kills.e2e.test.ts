/** Kills a gateway (kill -9) while responses are made in conversations: a response and its items are both stored, or neither is. Also, how long a conversation is kept. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { FakeClock } from '../fake-clock.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';
const rounds = 4;

interface Item {
  readonly id: string;
  readonly role: string;
}

async function call<Answer>({ url, apiKey }: Gateway, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

/** Makes responses in a conversation until the gateway is gone, and adds the ids of the output items that the client received to `known`. */
async function converse(gateway: Gateway, conversation: string, known: Set<string>): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    const body = { model: 'sim/small', input: `!sim say=Turn ${turn}.`, conversation, store: turn % 2 === 0 };
    try {
      const { output } = await call<{ output: Item[] }>(gateway, '/v1/responses', body);
      for (const { id } of output) known.add(id);
    } catch {
      return;
    }
  }
}

async function listItems(gateway: Gateway, conversation: string): Promise<Item[]> {
  const items: Item[] = [];
  for (let after = ''; ;) {
    const query = `order=asc&limit=100${after === '' ? '' : `&after=${after}`}`;
    const path = `/v1/conversations/${conversation}/items?${query}`;
    const page = await call<{ data: Item[]; has_more: boolean }>(gateway, path);
    items.push(...page.data);
    if (!page.has_more) return items;
    after = page.data.at(-1)?.id ?? '';
  }
}

async function chargedRequests({ account }: Gateway): Promise<Set<string>> {
  const ids = new Set<string>();
  for (;;) {
    const { records } = await account.listActivity({ limit: 1_000, offset: ids.size });
    for (const { requestId } of records) ids.add(requestId);
    if (records.length < 1_000) return ids;
  }
}

test('a response has added its items if and only if it was charged', async () => {
  let gateway = await startGateway({ config, balance: '1000' });
  const { home } = gateway;
  const known = new Set<string>();
  const conversations = await Promise.all(
    Array.from({ length: 4 }, () => call<{ id: string }>(gateway, '/v1/conversations', {})),
  );
  for (let round = 0; round < rounds; round += 1) {
    const before = known.size;
    const clients = conversations.map(({ id }) => converse(gateway, id, known));
    for (const deadline = performance.now() + 10_000; known.size < before + 20 && performance.now() < deadline;) {
      await sleep(1);
    }
    await sleep(round * 7);
    await gateway.kill();
    await Promise.all(clients);
    gateway = await startGateway({ config, home });
  }
  const charged = await chargedRequests(gateway);
  const added = new Set<string>();
  for (const { id } of conversations) {
    const items = await listItems(gateway, id);
    // The input and the output of a turn are stored together.
    expect(items.map(({ role }) => role)).toEqual(items.map((_, at) => (at % 2 === 0 ? 'user' : 'assistant')));
    for (const item of items) if (item.role === 'assistant') added.add(`req_${item.id.split('_')[1] ?? ''}`);
  }
  expect(added).toEqual(charged);
  expect([...known].filter(id => !added.has(`req_${id.split('_')[1] ?? ''}`))).toEqual([]);
  expect(known.size).toBeGreaterThan(rounds * 10);
  await endGateway(gateway);
});

/** Checks the lifetime of a conversation; `pass` lets a part of it pass. */
async function checkLifetime(gateway: Gateway, pass: (part: number) => Promise<void>): Promise<void> {
  const { id } = await call<{ id: string }>(gateway, '/v1/conversations', {});
  await pass(0.7);
  await call(gateway, `/v1/conversations/${id}/items`, { items: [{ role: 'user', content: 'still here' }] });
  await pass(0.7);
  await call(gateway, '/v1/responses', { model: 'sim/small', input: '!sim say=yes', conversation: id });
  await pass(0.7);
  // Reading does not count as use.
  expect(await listItems(gateway, id)).toHaveLength(3);
  await pass(0.5);
  await expect(listItems(gateway, id)).rejects.toThrow('404');
}

const dayMs = 86_400_000;

test('a conversation ends 30 days after its last use', async () => {
  // The gateway starts with a clock in the future, which is then set back, because it refuses a clock that is more than a day ahead of its start.
  let atMs = Date.now();
  const clock = new FakeClock(new Date(atMs + 100 * dayMs).toISOString());
  const gateway = await startGateway({ config, environment: clock.environment });
  clock.set(new Date(atMs).toISOString());
  await checkLifetime(gateway, async part => {
    atMs += part * 30 * dayMs;
    clock.set(new Date(atMs).toISOString());
  });
  await endGateway(gateway);
  clock.remove();
});
