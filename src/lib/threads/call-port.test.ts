import { MessageChannel } from 'node:worker_threads';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { CallPort, type CallHandler } from './call-port.ts';

const channels: MessageChannel[] = [];
afterEach(() => {
  for (const { port1 } of channels.splice(0)) port1.close();
});

const nothing = (): undefined => undefined;

function connect(answer: CallHandler['answer'], back: CallHandler['answer'] = nothing): [CallPort, CallPort] {
  const channel = new MessageChannel();
  channels.push(channel);
  const errors = {
    writeError: (thrown: unknown) => String(thrown),
    readError: (written: unknown) => new Error(String(written)),
  };
  return [new CallPort(channel.port1, { answer: back, ...errors }), new CallPort(channel.port2, { answer, ...errors })];
}

test('each call of a turn gets its own reply, in any order of the replies', async () => {
  const [port] = connect((name, [value]) => (name === 'late' ? sleep(5, value) : value));
  const replies = await Promise.all([port.call('late', 1n), port.call('now', 2), port.call('late', new Uint8Array(1))]);
  expect(replies).toEqual([1n, 2, new Uint8Array(1)]);
});

test('both sides can call each other', async () => {
  const [one, other] = connect(
    async (_, [value]) => Number(value) + (await other.call<number>('more')),
    () => 40,
  );
  expect(await one.call('sum', 2)).toBe(42);
});

test('an error in a call, synchronous or not, rejects only that call', async () => {
  const [port] = connect(name => {
    if (name === 'sync') throw new Error('sync');
    return name === 'async' ? Promise.reject(new Error('async')) : 'fine';
  });
  const ends = await Promise.allSettled([port.call('sync'), port.call('async'), port.call('fine')]);
  expect(ends).toEqual([
    { status: 'rejected', reason: new Error('Error: sync') },
    { status: 'rejected', reason: new Error('Error: async') },
    { status: 'fulfilled', value: 'fine' },
  ]);
});

test('a value that can’t be cloned rejects only its own call', async () => {
  const [port] = connect(name => (name === 'bad reply' ? () => undefined : 'fine'));
  const ends = await Promise.allSettled([
    port.call('bad call', () => undefined),
    port.call('bad reply'),
    port.call('fine'),
  ]);
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled']);
});

test('after the other side has ended, waiting and later calls are rejected', async () => {
  const [port] = connect(() => new Promise(nothing));
  const waiting = port.call('wait');
  port.end(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  await expect(port.call('later')).rejects.toThrow('gone');
});
