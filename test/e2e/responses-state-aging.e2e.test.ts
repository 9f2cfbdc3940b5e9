/** What time does to stored responses and to connections. */
import { existsSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { payg } from './chat-client.ts';
import { ResponsesCaller } from './resource-caller.ts';
import { SocketClient } from './socket-client.ts';

const model = payg;
const library = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** The wall clock of a process that runs: the time of day moves, timers do not. */
class MovedClock {
  readonly #file = join(mkdtempSync(join(tmpdir(), 'tollgate-clock-')), 'offset');

  constructor() {
    this.moveTo('+0');
  }

  /** What the process is started with. */
  get environment(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** Moves it so far from the true time, as libfaketime writes it ("+30d"). */
  moveTo(offset: string): void {
    // At once and whole: the process reads it whenever it looks at the clock.
    writeFileSync(`${this.#file}.next`, `${offset}\n`);
    renameSync(`${this.#file}.next`, this.#file);
  }
}

/** The texts that a response was made from, oldest first. */
async function textsBefore(caller: ResponsesCaller, id: string): Promise<(string | undefined)[]> {
  const { body } = await caller.ask('GET', `/${id}/input_items?order=asc&limit=100`);
  const { data } = body as { data: { content: { text: string }[] }[] };
  return data.map(item => item.content[0]?.text);
}

const conversation = ['!sim say=First.', 'First.', '!sim say=Second.', 'Second.', '!sim say=Third.'];

/** A response and one that goes on from it, the second half-way through the first one's life; then the first one's end. */
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

describe.skipIf(!existsSync(library))('a clock that moves while the gateway runs (libfaketime is installed)', () => {
  test('ends a response after 30 days, never what goes on from it, and a connection after 60 minutes', async () => {
    const clock = new MovedClock();
    const gateway = await startGateway({ environment: clock.environment });
    const socket = await SocketClient.open(gateway.url, gateway.apiKey);
    const unstored = await socket.ask({ model, input: '!sim say=A.', store: false });
    const kept = 'response' in unstored ? unstored.response.id : '';
    clock.moveTo('+59m');
    const later = await socket.ask({ model, input: '!sim say=B.', store: false, previous_response_id: kept });
    expect('response' in later && later.response.status).toBe('completed');
    clock.moveTo('+61m');
    const late = await socket.ask({ model, input: '!sim say=C.', store: false });
    expect('error' in late && late.error).toMatchObject({
      type: 'error',
      status: 400,
      error: { code: 'websocket_connection_limit_reached' },
    });
    await expect(socket.next()).rejects.toThrow('closed with 1008');

    clock.moveTo('+0');
    await outlive(
      gateway,
      async () => clock.moveTo('+29d'),
      async () => clock.moveTo('+31d'),
    );
    await endGateway(gateway);
  });
});

test.skipIf(existsSync(library))(
  'a response lives as long as configured (seconds: the clock can’t be moved here)',
  async () => {
    const gateway = await startGateway({ config: 'content: { response_lifetime: 6s }\n' });
    await outlive(
      gateway,
      () => sleep(3_000),
      async () => undefined,
    );
    await endGateway(gateway);
  },
);
