/** What happens to responses when a gateway is stopped or killed, and what stays on the disk. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { toRequestId } from '../../src/generation/response-ids.ts';
import { readBalance, endGateway, type Gateway, isOnPostgres, readRecord, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { isStored } from '../stored-content.ts';
import { payg } from './chat-client.ts';
import { parseEvents, type Resource, ResponsesCaller, readText } from './resource-caller.ts';
import { SocketClient } from './socket-client.ts';

const model = payg;
const makeCaller = (gateway: Gateway): ResponsesCaller => new ResponsesCaller(gateway, gateway.apiKey);

async function untilOutput(caller: ResponsesCaller, id: string, length: number): Promise<Resource> {
  for (;;) {
    const response = await caller.get(id);
    if (readText(response).length >= length) return response;
    await sleep(10);
  }
}

test('after a kill under load, stored responses can be read; running ones have failed and are free', async () => {
  const first = await startGateway();
  const before = makeCaller(first);
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
  const compacted = (await before.ask('POST', '/compact', { model, input: 'My name is Ada.' })).body as Resource;
  const done = await before.create({ model, input: '!sim say=Done.', background: true });
  const ended = await before.ended(done.id);
  const cancelled = await before.create({ model, input: '!sim tokens=4000 tps=100', background: true });
  await untilOutput(before, cancelled.id, 20);
  await before.ask('POST', `/${cancelled.id}/cancel`);
  const stopped = await before.get(cancelled.id);
  const balance = await readBalance(first);
  const waiting = await before.create({ model, input: '!sim delay_ms=60000', background: true });
  const running = await Promise.all(
    Array.from({ length: 5 }, () => before.create({ model, input: '!sim tokens=8000 tps=100', background: true })),
  );
  const seen = await Promise.all(running.map(({ id }) => untilOutput(before, id, 60)));
  const endless = { model, input: '!sim tokens=8000 tps=100', previous_response_id: chain[2]?.id };
  const socket = await SocketClient.open(first.url, first.apiKey);
  socket.create(endless);
  const turn = (await socket.next()).response?.id ?? '';
  const streamed = await before.fetch('POST', '', { ...endless, stream: true });
  const stream = streamed.text().catch((error: unknown) => String(error));
  await first.kill();
  expect(await stream).not.toContain('[DONE]');
  // Meanwhile the operator adds a new secret before the old one.
  const secrets = join(first.dataDir, 'server.secret');
  writeFileSync(secrets, `${'n'.repeat(43)}\n${readFileSync(secrets, 'utf8')}`);

  const second = await startShared({ home: first.home });
  const after = makeCaller(second);
  for (const each of [...chain, ended, stopped]) expect(await after.get(each.id)).toEqual(each);
  const next = await after.create({ model, input: '!sim say=Four.', previous_response_id: chain[2]?.id });
  expect(readText(next)).toBe('Four.');
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
    expect(streamed === undefined ? '' : readText(streamed).startsWith(readText(each))).toBe(true);
  }
  // Nothing was stored of the response that was not in the background, so the same request can be sent again.
  expect((await after.ask('GET', `/${turn}`)).status).toBe(404);
  const lost = await after.ask('POST', '', { model, input: 'x', previous_response_id: turn });
  expect(lost.body).toMatchObject({ error: { code: 'previous_response_not_found' } });
  const { records } = await second.account.listActivity({ limit: 100 });
  const readKeyPrefix = ({ output }: Resource): string => String(output.at(-1)?.['encrypted_content']).slice(0, 9);
  const input = [...compacted.output, { role: 'user', content: 'And now?' }];
  const again = (await after.ask('POST', '/compact', { model, input })).body as Resource;
  expect(readKeyPrefix(compacted)).toMatch(/^tg1\.[\w-]{5}$/);
  expect(readKeyPrefix(again)).toMatch(/^tg1\.[\w-]{5}$/);
  // On PostgreSQL, the gateways share the secret in the database.
  if (!isOnPostgres) expect(readKeyPrefix(again)).not.toBe(readKeyPrefix(compacted));
  const charged = new Set(records.map(record => record.requestId));
  for (const id of [waiting.id, ...running.map(each => each.id), turn])
    expect(charged.has(toRequestId(id) ?? '')).toBe(false);
  const spent = await Promise.all([next, again].map(each => readRecord(second, toRequestId(each.id) ?? '')));
  expect(await readBalance(second)).toBe(balance - spent.reduce((sum, record) => sum + record.costNanoUsd, 0n));
  await endGateway(second);
});

test('a gateway that is stopped lets responses in the background end within the grace period; after it, they fail free of charge, and streams are cut', async () => {
  const first = await startGateway({ config: 'shutdown_grace: 2s\n' });
  const before = makeCaller(first);
  const balance = await readBalance(first);
  const { id } = await before.create({ model, input: '!sim tokens=8000 tps=100', background: true });
  await untilOutput(before, id, 40);
  const response = await before.fetch('POST', '', { model, input: '!sim tokens=8000 tps=100', stream: true });
  const short = await before.create({ model, input: '!sim delay_ms=300 say=Done.', background: true });
  const stopped = first.stop();
  const events = parseEvents(await response.text());
  expect((await stopped).code).toBe(0);
  const [error, failed] = events.slice(-2);
  expect([error?.type, error?.['code'], failed?.type]).toEqual(['error', 'overloaded', 'response.failed']);

  const second = await startShared({ home: first.home });
  const after = makeCaller(second);
  const ended = await after.get(short.id);
  expect([ended.status, readText(ended), ended.usage === null]).toEqual(['completed', 'Done.', false]);
  const restarted = await after.get(id);
  expect([restarted.status, restarted.error?.code]).toEqual(['failed', 'server_restarted']);
  const cut = await after.get(failed?.response?.id ?? '');
  expect([cut.status, cut.error?.code]).toEqual(['failed', 'overloaded']);
  expect(readText(cut).length).toBeGreaterThan(0);
  const { records } = await second.account.listActivity({ limit: 10 });
  expect(new Map(records.map(({ requestId, state }) => [requestId, state]))).toEqual(
    new Map([
      [toRequestId(cut.id), RecordState.INCOMPLETE],
      [toRequestId(short.id), RecordState.COMPLETED],
    ]),
  );
  const cost = records.reduce((sum, record) => sum + record.costNanoUsd, 0n);
  expect(await readBalance(second)).toBe(balance - cost);
  await endGateway(second);
});

test('responses with `store: false` leave nothing on the disk, and neither do deleted ones', async () => {
  const gateway = await startShared();
  const caller = makeCaller(gateway);
  const unstored = 'canary-that-nobody-stores';
  const deleted = 'canary-that-is-deleted';
  await caller.create({ model, input: `${unstored}\n!sim say=${unstored}`, store: false });
  await caller.stream('POST', '', { model, input: `${unstored}\n!sim say=${unstored}`, store: false, stream: true });
  const { id } = await caller.create({ model, input: `${deleted}\n!sim say=${deleted}` });
  const words = async (): Promise<string[]> => {
    const are = await Promise.all([unstored, deleted].map(word => isStored(gateway.home, word)));
    return [unstored, deleted].filter((_, at) => are[at]);
  };
  expect(await words()).toEqual([deleted]);
  await caller.ask('DELETE', `/${id}`);
  for (let tries = 0; (await words()).length > 0 && tries < 100; tries++) await sleep(50);
  expect(await words()).toEqual([]);
  await endGateway(gateway);
});
