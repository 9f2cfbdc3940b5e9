/** What a gateway that stops, dies or grows old does to responses. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { requestIdOf } from '../../src/generation/response-ids.ts';
import { balanceOf, endGateway, type Gateway, recordOf, startGateway } from '../gateway.ts';
import { payg } from './chat-client.ts';
import { type Resource, ResponsesCaller, textOf } from './resource-caller.ts';

const model = payg;
const callerOf = (gateway: Gateway): ResponsesCaller => new ResponsesCaller(gateway, gateway.apiKey);

async function untilOutput(caller: ResponsesCaller, id: string, length: number): Promise<Resource> {
  for (;;) {
    const response = await caller.get(id);
    if (textOf(response).length >= length) return response;
    await sleep(10);
  }
}

test('a kill in the middle of everything: what was stored is there, what ran has failed and is free', async () => {
  const first = await startGateway();
  const before = callerOf(first);
  const chain: Resource[] = [];
  for (const say of ['One.', 'Two.', 'Three.']) {
    const previous = chain.at(-1)?.id;
    const body = {
      model,
      input: `!sim say=${say}`,
      ...(previous === undefined ? {} : { previous_response_id: previous }),
    };
    chain.push(await before.create(body));
  }
  const done = await before.create({ model, input: '!sim say=Done.', background: true });
  const ended = await before.ended(done.id);
  const cancelled = await before.create({ model, input: '!sim tokens=4000 tps=100', background: true });
  await untilOutput(before, cancelled.id, 20);
  await before.ask('POST', `/${cancelled.id}/cancel`);
  const stopped = await before.get(cancelled.id);
  const balance = await balanceOf(first);
  const waiting = await before.create({ model, input: '!sim delay_ms=60000', background: true });
  const running = await Promise.all(
    Array.from({ length: 5 }, () => before.create({ model, input: '!sim tokens=8000 tps=100', background: true })),
  );
  const seen = await Promise.all(running.map(({ id }) => untilOutput(before, id, 60)));
  await first.kill();

  const second = await startGateway({ home: first.home });
  const after = callerOf(second);
  for (const each of [...chain, ended, stopped]) expect(await after.get(each.id)).toEqual(each);
  const next = await after.create({ model, input: '!sim say=Four.', previous_response_id: chain[2]?.id });
  expect(textOf(next)).toBe('Four.');
  for (const { id } of [waiting, ...running]) {
    const response = await after.get(id);
    expect([response.status, response.error?.code]).toEqual(['failed', 'server_restarted']);
    expect(response.usage).toBeNull();
    expect((await after.ask('POST', `/${id}/cancel`)).body).toEqual(response);
  }
  for (const each of seen) {
    const events = await after.stream('GET', `/${each.id}?stream=true`);
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.slice(-2).map(event => event.type)).toEqual(['error', 'response.failed']);
    const streamed = events.at(-1)?.response;
    expect(streamed === undefined ? '' : textOf(streamed).startsWith(textOf(each))).toBe(true);
  }
  const { records } = await second.account.listActivity({ limit: 100 });
  const charged = new Set(records.map(record => record.requestId));
  for (const { id } of [waiting, ...running]) expect(charged.has(requestIdOf(id) ?? '')).toBe(false);
  const spent = await recordOf(second, requestIdOf(next.id) ?? '');
  expect(await balanceOf(second)).toBe(balance - spent.costNanoUsd);
  await endGateway(second);
});

describe('a gateway that stops', () => {
  test('lets responses in the background end within the grace', async () => {
    const first = await startGateway();
    const { id } = await callerOf(first).create({ model, input: '!sim tokens=60 tps=60', background: true });
    expect((await first.stop()).code).toBe(0);
    const second = await startGateway({ home: first.home });
    const response = await callerOf(second).get(id);
    expect([response.status, response.usage === null]).toEqual(['completed', false]);
    expect((await recordOf(second, requestIdOf(id) ?? '')).state).toBe(RecordState.COMPLETED);
    await endGateway(second);
  });

  test('fails them after it, free and without a record; a stream is cut, charged as delivered and stored as failed', async () => {
    const first = await startGateway({ config: 'shutdown_grace: 300ms\n' });
    const before = callerOf(first);
    const balance = await balanceOf(first);
    const { id } = await before.create({ model, input: '!sim tokens=8000 tps=100', background: true });
    await untilOutput(before, id, 40);
    const stream = before.stream('POST', '', { model, input: '!sim tokens=8000 tps=100', stream: true });
    await sleep(400);
    expect((await first.stop()).code).toBe(0);
    const events = await stream;
    const [error, failed] = events.slice(-2);
    expect([error?.type, error?.['code'], failed?.type]).toEqual(['error', 'overloaded', 'response.failed']);

    const second = await startGateway({ home: first.home });
    const after = callerOf(second);
    const response = await after.get(id);
    expect([response.status, response.error?.code]).toEqual(['failed', 'server_restarted']);
    const cut = await after.get(failed?.response?.id ?? '');
    expect([cut.status, cut.error?.code]).toEqual(['failed', 'overloaded']);
    expect(textOf(cut).length).toBeGreaterThan(0);
    const { records } = await second.account.listActivity({ limit: 10 });
    expect(records.map(({ requestId, state }) => [requestId, state])).toEqual([
      [requestIdOf(cut.id), RecordState.INCOMPLETE],
    ]);
    expect(await balanceOf(second)).toBe(balance - (records[0]?.costNanoUsd ?? 0n));
    await endGateway(second);
  });
});

test('a response lives as long as configured; a conversation that goes on keeps all of itself', async () => {
  const gateway = await startGateway({ config: 'content: { response_lifetime: 6s }\n' });
  const caller = callerOf(gateway);
  const first = await caller.create({ model, input: '!sim say=First.' });
  await sleep(3_000);
  const second = await caller.create({ model, input: '!sim say=Second.', previous_response_id: first.id });
  while ((await caller.ask('GET', `/${first.id}`)).status === 200) await sleep(50);
  const refused = await caller.ask('POST', '', { model, input: 'x', previous_response_id: first.id });
  expect(refused.body).toMatchObject({ error: { code: 'previous_response_not_found', status_code: 400 } });
  const third = await caller.create({ model, input: '!sim say=Third.', previous_response_id: second.id });
  const { body } = await caller.ask('GET', `/${third.id}/input_items?order=asc`);
  const { data } = body as { data: { content: { text: string }[] }[] };
  expect(data.map(item => item.content[0]?.text)).toEqual([
    '!sim say=First.',
    'First.',
    '!sim say=Second.',
    'Second.',
    '!sim say=Third.',
  ]);
  await endGateway(gateway);
});

test('what is not to be stored leaves nothing behind, what is deleted neither', async () => {
  const gateway = await startGateway();
  const caller = callerOf(gateway);
  const unstored = 'canary-that-nobody-stores';
  const deleted = 'canary-that-is-deleted';
  await caller.create({ model, input: `${unstored}\n!sim say=${unstored}`, store: false });
  await caller.stream('POST', '', { model, input: `${unstored}\n!sim say=${unstored}`, store: false, stream: true });
  const { id } = await caller.create({ model, input: `${deleted}\n!sim say=${deleted}` });
  const words = (): string[] =>
    readdirSync(gateway.dataDir).flatMap(file => {
      const bytes = readFileSync(join(gateway.dataDir, file));
      return [unstored, deleted].filter(word => bytes.includes(word));
    });
  expect(new Set(words())).toEqual(new Set([deleted]));
  await caller.ask('DELETE', `/${id}`);
  for (let tries = 0; words().length > 0 && tries < 100; tries++) await sleep(50);
  expect(words()).toEqual([]);
  await endGateway(gateway);
});
