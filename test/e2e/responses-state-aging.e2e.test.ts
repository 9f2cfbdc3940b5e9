/** Lifetimes of stored responses and of connections. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { FakeClock } from '../fake-clock.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { payg } from './chat-client.ts';
import { ResponsesCaller } from './resource-caller.ts';
import { SocketClient } from './socket-client.ts';

const model = payg;
const minute = 60_000;
const day = 1_440 * minute;

/** Returns the texts of a response's input items, oldest first. */
async function textsBefore(caller: ResponsesCaller, id: string): Promise<(string | undefined)[]> {
  const { body } = await caller.ask('GET', `/${id}/input_items?order=asc&limit=100`);
  const { data } = body as { data: { content: { text: string }[] }[] };
  return data.map(item => item.content[0]?.text);
}

const conversation = ['!sim say=First.', 'First.', '!sim say=Second.', 'Second.', '!sim say=Third.'];

/** Makes a response, half a lifetime later another one that continues it, and checks both when the first one's lifetime is over. */
async function outlive(gateway: Gateway, halfWay: () => Promise<void>, end: () => Promise<void>): Promise<void> {
  const caller = new ResponsesCaller(gateway, gateway.apiKey);
  const first = await caller.create({ model, input: '!sim say=First.' });
  await halfWay();
  expect((await caller.ask('GET', `/${first.id}`)).status).toBe(200);
  const second = await caller.create({ model, input: '!sim say=Second.', previous_response_id: first.id });
  await end();
  while ((await caller.ask('GET', `/${first.id}`)).status === 200) await sleep(50);
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/input_items'],
  ] as const)
    expect((await caller.ask(method, `/${first.id}${path}`)).status).toBe(404);
  const refused = await caller.ask('POST', '', { model, input: 'x', previous_response_id: first.id });
  expect(refused.body).toMatchObject({ error: { code: 'previous_response_not_found', status_code: 400 } });
  const third = await caller.create({ model, input: '!sim say=Third.', previous_response_id: second.id });
  expect(await textsBefore(caller, third.id)).toEqual(conversation);
}

describe('a clock that moves while the gateway runs', () => {
  test('ends a response after 30 days, but not a response that continues it, and a connection after 60 minutes', async () => {
    const after = (ms: number): string => new Date(Date.now() + ms).toISOString();
    // The gateway starts at the latest time, because it refuses a clock that is a day ahead of its start.
    const clock = new FakeClock(after(32 * day));
    const gateway = await startGateway({ environment: clock.environment });
    clock.set(after(0));
    const socket = await SocketClient.open(gateway.url, gateway.apiKey);
    const unstored = await socket.ask({ model, input: '!sim say=A.', store: false });
    const kept = 'response' in unstored ? unstored.response.id : '';
    clock.set(after(59 * minute));
    const later = await socket.ask({ model, input: '!sim say=B.', store: false, previous_response_id: kept });
    expect('response' in later && later.response.status).toBe('completed');
    clock.set(after(61 * minute));
    const late = await socket.ask({ model, input: '!sim say=C.', store: false });
    expect('error' in late && late.error).toMatchObject({
      type: 'error',
      status: 400,
      error: { code: 'websocket_connection_limit_reached' },
    });
    await expect(socket.next()).rejects.toThrow('closed with 1008');

    clock.set(after(0));
    await outlive(
      gateway,
      async () => clock.set(after(29 * day)),
      async () => clock.set(after(31 * day)),
    );
    await endGateway(gateway);
    clock.remove();
  });
});
