import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CredentialError } from '../request-signer.ts';
import { RenewedCredential } from './renewed-credential.ts';

/** A clock that the test moves, and a credential whose fetches it answers. */
function setUp(lifeMs: number | undefined) {
  let now = 1_000_000;
  const fetches: PromiseWithResolvers<void>[] = [];
  let count = 0;
  const credential = new RenewedCredential(
    async () => {
      const answered = Promise.withResolvers<void>();
      fetches.push(answered);
      await answered.promise;
      count += 1;
      return { value: count, endsAtMs: lifeMs === undefined ? undefined : now + lifeMs };
    },
    { now: () => now, after: () => ({ cancel: () => undefined, restart: () => undefined }) },
  );
  const answer = async (failure?: Error): Promise<void> => {
    if (failure === undefined) fetches.at(-1)?.resolve();
    else fetches.at(-1)?.reject(failure);
    await nextTurn();
  };
  return { credential, fetches, answer, pass: (ms: number) => (now += ms) };
}

test('many requests fetch it once', async () => {
  const { credential, fetches, answer } = setUp(3_600_000);
  const all = Promise.all(Array.from({ length: 100 }, () => credential.get()));
  await answer();
  expect(new Set(await all)).toEqual(new Set([1]));
  expect(await credential.get()).toBe(1);
  expect(fetches).toHaveLength(1);
});

test.each([
  [3_600_000, 3_299_999],
  [100_000, 49_999],
])('of a life of %i ms it is renewed in the background after more than %i ms', async (lifeMs, keptMs) => {
  const { credential, fetches, answer, pass } = setUp(lifeMs);
  void credential.get();
  await answer();
  pass(keptMs);
  expect(await credential.get()).toBe(1);
  expect(fetches).toHaveLength(1);
  pass(2);
  expect([await credential.get(), await credential.get()]).toEqual([1, 1]);
  expect(fetches).toHaveLength(2);
  await answer();
  expect(await credential.get()).toBe(2);
});

test('a failing renewal is tried again after five seconds, and shows only when the credential has ended', async () => {
  const { credential, fetches, answer, pass } = setUp(100_000);
  void credential.get();
  await answer();
  pass(60_000);
  expect(await credential.get()).toBe(1);
  await answer(new Error('no route'));
  expect(await credential.get()).toBe(1);
  expect(fetches).toHaveLength(2);
  pass(5_000);
  expect(await credential.get()).toBe(1);
  expect(fetches).toHaveLength(3);
  await answer(new Error('no route'));
  pass(40_000);
  const ended = credential.get();
  void answer(new Error('no route\nwith a page of text'));
  await expect(ended).rejects.toThrow(new CredentialError('no route'));
});

test('a refused credential is fetched again, but not if it is new', async () => {
  const { credential, answer, pass } = setUp(undefined);
  void credential.get();
  await answer();
  expect(credential.forget()).toBe(false);
  pass(30_000);
  expect(credential.forget()).toBe(true);
  const next = credential.get();
  await answer();
  expect(await next).toBe(2);
});
