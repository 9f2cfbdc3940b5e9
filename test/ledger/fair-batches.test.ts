import { expect, test } from 'vitest';
import { dollar, isOnPostgres, makeAdmitCommand, makeHash, openFixture } from './fixture.ts';

test('a request of one account is admitted before most requests that another account has sent earlier at once', async () => {
  const fixture = await openFixture({ balance: 1000n * dollar });
  const { ledger } = fixture;
  const { accountId } = await ledger.createAccount({ name: 'small', balance: 10n * dollar });
  await ledger.createKey({ accountId, hash: makeHash('small'), masked: 'sk-tg-aaaa…aaaa', settings: {} });
  await ledger.admit(makeAdmitCommand(1, {}, 'small'));
  await ledger.admit(makeAdmitCommand(2));
  const order: number[] = [];
  const admit = async (id: number, key: string): Promise<void> => {
    const admitted = await ledger.admit(makeAdmitCommand(id, {}, key));
    expect(admitted.kind).toBe('admitted');
    order.push(id);
  };
  const busy = Array.from({ length: 100 }, (_, at) => 10 + at);
  await Promise.all([...busy.map(id => admit(id, 'key')), admit(200, 'small')]);
  expect(order.filter(id => id !== 200)).toEqual(busy);
  expect(order.indexOf(200)).toBeLessThan(isOnPostgres ? 70 : 20);
  const ended = await Promise.all([1, 2, 200, ...busy].map(id => ledger.void(id, 'gateway_failure')));
  expect(new Set(ended)).toEqual(new Set(['voided']));
  expect(await ledger.findAccount(accountId)).toMatchObject({ balance: 10n * dollar, held: 0n });
  await fixture.end();
});
