import { expect, test } from 'vitest';
import { WaitingBudget } from '../lib/waiting-budget.ts';
import { HeldContent } from './held-content.ts';

const mebibyte = 1024 ** 2;

test('the end of an answer is read even if there is no memory for it, or never can be', async () => {
  const memory = new WaitingBudget<bigint>(() => ({ max: 8 * mebibyte, ownerMax: 8 * mebibyte, waitMs: 20 }));
  const room = new HeldContent({ memory, accountId: 1 });
  await room.reserve(4 * mebibyte);
  memory.take(2n, 4 * mebibyte);
  await expect(room.again.reserve(6 * mebibyte)).rejects.toMatchObject({ code: 'overloaded' });
  await room.end.reserve(6 * mebibyte);
  await room.end.reserve(60 * mebibyte);
  expect(memory.taken).toBe(8 * mebibyte);
  room.release();
  expect(memory.taken).toBe(4 * mebibyte);
});
