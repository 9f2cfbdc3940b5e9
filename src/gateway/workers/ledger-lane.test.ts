import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { overloaded } from '../../errors/overloaded.ts';
import type { SqliteLedger } from '../../ledger/sqlite/sqlite-ledger.ts';
import type { WireCommand } from '../../ledger/sqlite/wire.ts';
import { CallPort } from '../../lib/threads/call-port.ts';
import { readError, writeError } from '../../rpc/port-errors.ts';
import { HeldIds } from './held-ids.ts';
import { LedgerLane, type SentCommands } from './ledger-lane.ts';
import { LedgerRelay } from './ledger-relay.ts';

const channels: MessageChannel[] = [];
afterEach(() => {
  for (const { port1 } of channels.splice(0)) port1.close();
});

/** Connects a lane with a relay. `relay` is the ledger's end. */
function connect(relay: SqliteLedger['relay'], held = HeldIds.makeMemory()) {
  const channel = new MessageChannel();
  channels.push(channel);
  const { port1, port2 } = channel;
  const end = new LedgerRelay(replies => port2.postMessage(replies), { relay }, held);
  port2.on('message', (message: unknown) => {
    if (Array.isArray(message)) end.take(message as SentCommands);
  });
  return { lane: new LedgerLane(port1, readError), end, port1, port2 };
}

const read = (keyId: number): WireCommand => ['refusal', 0, keyId];
const admit = (id: number): WireCommand => [
  'admit',
  0,
  id,
  'req',
  1,
  1,
  'm',
  false,
  null,
  null,
  false,
  null,
  1,
  undefined,
  '',
  undefined,
  undefined,
];
const value = (reply: unknown): unknown => reply;
/** The ledger’s handling of a command. */
type Held = Parameters<SqliteLedger['relay']>[2];

test('each command of a turn gets its own reply or error, in any order', async () => {
  const held: Held[] = [];
  const { lane } = connect(([, , keyId], isBounded, call) => {
    if (keyId === 2) return call.reject(overloaded('full', new Error('disk')));
    if (keyId === 3) return call.resolve([keyId, isBounded, [7n]]);
    held.push(call);
    if (held.length === 2) for (const [index, each] of held.reverse().entries()) each.resolve(index);
  });
  const ends = await Promise.allSettled([
    lane.send(read(1), value),
    lane.send(read(2), value),
    lane.send(read(3), reply => ({ reply }), true),
    lane.send(read(4), value),
  ]);
  expect(ends.map(end => (end.status === 'fulfilled' ? end.value : end.reason))).toEqual([
    1,
    new GatewayError('overloaded', 'full', { retryAfterMs: 1000, cause: new Error('Error: disk') }),
    { reply: [3, true, [7n]] },
    0,
  ]);
});

test('a reply that comes after its command was refused does not answer a later command', async () => {
  const held: Held[] = [];
  const { lane } = connect((_, __, call) => {
    held.push(call);
    if (held.length === 1) call.reject(overloaded('slow'));
    if (held.length === 2) {
      held[0]?.reject(overloaded('slow'));
      held[0]?.resolve('late');
      setTimeout(() => call.resolve('own'), 5);
    }
  });
  await expect(lane.send(read(1), value, true)).rejects.toThrow('slow');
  expect(await lane.send(read(2), value)).toBe('own');
});

test('calls on the same port do not disturb the commands', async () => {
  const { lane, port1, port2 } = connect((_, __, call) => call.resolve('reply'));
  const errors = { writeError, readError };
  const calls = new CallPort(port1, { answer: () => undefined, ...errors });
  const far = new CallPort(port2, { answer: (name, args) => [name, ...args], ...errors });
  expect(await Promise.all([calls.call('call', 1), lane.send(read(1), value), calls.call('call', 2)])).toEqual([
    ['call', 1],
    'reply',
    ['call', 2],
  ]);
  far.end(new Error('over'));
});

test('when the worker ends, the holds in its memory are voided, and so is one that is admitted later', async () => {
  const commands: WireCommand[] = [];
  const held: Held[] = [];
  const memory = HeldIds.makeMemory();
  const { lane, end } = connect((command, _, call) => {
    commands.push(command);
    held.push(call);
  }, memory);
  const ids = new HeldIds(memory);
  for (const id of [1, 2, 3]) ids.add(id);
  ids.delete(1);
  ids.delete(3);
  void lane.send(admit(4), value);
  void lane.send(admit(5), value);
  await expect.poll(() => held.length).toBe(2);
  commands.length = 0;
  end.end();
  held[0]?.resolve([4]);
  held[1]?.resolve({ kind: 'denied' });
  expect(commands.map(([kind, , id]) => [kind, id])).toEqual([
    ['void', 2],
    ['void', 4],
  ]);
});

test('the memory of held ids grows, and its slots are used again', () => {
  const memory = HeldIds.makeMemory();
  const ids = new HeldIds(memory);
  for (let id = 1; id <= 3_000; id += 1) ids.add(id);
  for (let id = 1; id <= 2_999; id += 1) ids.delete(id);
  ids.delete(9);
  expect(HeldIds.list(memory)).toEqual([3_000]);
  const bytes = memory.byteLength;
  for (let id = 4_001; id <= 6_000; id += 1) ids.add(id);
  expect(memory.byteLength).toBe(bytes);
  expect(HeldIds.list(memory)).toHaveLength(2_001);
});
