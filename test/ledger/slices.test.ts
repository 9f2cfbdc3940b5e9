import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Slices } from '../../src/core/generation/slices.ts';
import type { Admitted } from '../../src/ledger/ledger.ts';
import { makeAdmitCommand, type LedgerFixture, dollar, openFixture, makeSettleCommand } from './fixture.ts';

// The commits before those of a test: the bootstrap and its admit. The next commit is the first extension.
const firstExtension = 3;

let fixture: LedgerFixture;
let unhandled: unknown[] = [];
const note = (reason: unknown): void => {
  unhandled.push(reason);
};

beforeEach(() => {
  unhandled = [];
  process.on('unhandledRejection', note);
});

afterEach(async () => {
  process.off('unhandledRejection', note);
  await fixture.end();
});

async function openSlices(
  times: number,
  balance = 10n * dollar,
  most = Infinity,
): Promise<{ slices: Slices; ended: number[]; mend(): Promise<void> }> {
  const fault = { point: 'commit', nth: firstExtension, times, kind: 'SQLITE_FULL' } as const;
  fixture = await openFixture(times === 0 ? { balance, isInline: true } : { fault, balance });
  const admitted = await fixture.ledger.admit(makeAdmitCommand(1));
  expect(admitted.kind).toBe('admitted');
  // SQLite fails this many times; PostgreSQL fails until it is repaired.
  const mend = times === 0 ? undefined : await fixture.failDatabase?.();
  const ended: number[] = [];
  const slices = new Slices(fixture.ledger, admitted as Admitted, most, {
    ended: tokens => ended.push(tokens),
    raised: () => undefined,
  });
  return { slices, ended, mend: async () => mend?.() };
}

test('an extension that was requested early and failed in the storage is requested again, and the request settles', async () => {
  const { slices, ended, mend } = await openSlices(1);
  expect(slices.reach(600)).toBeUndefined();
  await slices.idle();
  await mend();
  await sleep(1);
  expect(unhandled).toEqual([]);

  // The second extension was waited for, so the first one failed.
  const extended = slices.reach(1100);
  expect(extended).toBeInstanceOf(Promise);
  await extended;
  expect(ended).toEqual([]);
  expect(await fixture.ledger.settle(makeSettleCommand(1, 1100))).toMatchObject({
    kind: 'settled',
    costNanoUsd: 4_500_000n,
  });
});

test('while the storage fails, `reach` rejects for output that no hold covers', async () => {
  const { slices, mend } = await openSlices(1);
  await expect(slices.reach(1024)).rejects.toMatchObject({ code: 'overloaded' });
  await slices.idle();
  await mend();
  expect(unhandled).toEqual([]);
  expect(await fixture.ledger.void(1, 'gateway_failure')).toBe('voided');
});

test('a batch of output that exceeds the extension in progress waits until all of it is held', async () => {
  // The balance pays for 100 input tokens at 1,000 and 2,000 output tokens at 4,000 nano-dollars.
  const { slices, ended } = await openSlices(0, 8_100_000n);
  expect(slices.reach(600)).toBeUndefined();
  await slices.reach(5000);
  expect(ended).toEqual([2000]);
  await fixture.ledger.settle(makeSettleCommand(1, 2000));
});

test('no more is held than the output limit allows, so that other requests can hold the rest', async () => {
  // The balance pays for 100 input tokens and 4,000 output tokens, of which the admission holds 1,024.
  const { slices, ended } = await openSlices(0, 16_100_000n, 1_200);
  await slices.reach(1_100);
  expect(slices.reach(5_000)).toBeUndefined();
  const other = await fixture.ledger.admit(makeAdmitCommand(2));
  // A third of the rest: the same for each of three requests, each with its input, which costs as much as 25 output
  // tokens.
  expect(other).toMatchObject({ kind: 'admitted', outputTokens: 908, outputTokensAvailable: 2775 - 908 });
  expect(ended).toEqual([]);
  await fixture.ledger.settle(makeSettleCommand(1, 1_200));
  await fixture.ledger.void(2, 'gateway_failure');
});

test('a limit that the admission covers is never extended', async () => {
  const { slices } = await openSlices(0, 16_100_000n, 1_024);
  expect(slices.reach(1_024)).toBeUndefined();
  await fixture.ledger.settle(makeSettleCommand(1, 1_024));
});

test('an answer that another upstream call continues gets its next slice early, and is told how many tokens the balance pays for', async () => {
  // The balance pays for 2,500 output tokens; each call may generate 1,024.
  const { slices, ended } = await openSlices(0, 10_100_000n, 1_024);
  expect(slices.reach(1_024)).toBeUndefined();
  slices.addOutput(1_024);
  slices.addOutput(1_024);
  await slices.reach(1_100);
  await slices.reach(2_450);
  expect(ended).toEqual([2_500]);
  await fixture.ledger.settle(makeSettleCommand(1, 2_500));
});
