import { expect, test } from 'vitest';
import { KeyRoom } from './key-room.ts';

const key = 7;
const nowMs = 50_000;

test('a key has room for the number of requests that the ledger returned; requests of other keys count too', () => {
  const room = new KeyRoom();
  room.send(4);
  room.remember(key, 3, { sent: room.sent, nowMs });
  expect(room.has(key, nowMs)).toBe(true);
  room.send(2);
  expect(room.has(key, nowMs)).toBe(true);
  room.send(1);
  expect(room.has(key, nowMs)).toBe(false);
});

test('requests that were sent between the query to the ledger and its reply count', () => {
  const room = new KeyRoom();
  const { sent } = room;
  room.send(3);
  room.remember(key, 3, { sent, nowMs });
  expect(room.has(key, nowMs)).toBe(false);
});

test('the ledger is queried again after a second, after a change, and for another key', () => {
  const room = new KeyRoom();
  room.remember(key, Infinity, { sent: 0, nowMs });
  expect([nowMs, nowMs + 999, nowMs + 1000, nowMs - 1].map(at => room.has(key, at))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(room.has(key + 1, nowMs)).toBe(false);
  room.forget();
  expect(room.has(key, nowMs)).toBe(false);
});
