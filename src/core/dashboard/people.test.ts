import { expect, test } from 'vitest';
import { findPerson } from './people.ts';

const rules = [{ claim: 'email', value: '*@example.test', role: 'operator', accountId: null }] as const;
const ann = { sub: 'u-81', email: 'ann@example.test' };

test.each([['false'], ['true'], [false], [undefined], [1]])(
  'an address whose `email_verified` is %o gives no role: only true says that it is verified',
  verified => {
    expect(findPerson({ ...ann, email_verified: verified }, rules)).toBeUndefined();
  },
);

test('a person is named by the subject, with a verified address beside it', () => {
  expect(findPerson({ ...ann, email_verified: true }, rules)?.subject).toBe('u-81, ann@example.test');
  const byName = [{ ...rules[0], claim: 'sub', value: 'u-81' }];
  expect(findPerson({ ...ann, email_verified: 'true' }, byName)?.subject).toBe('u-81');
});
