import { expect, test } from 'vitest';
import { mergeClaims } from './identity-provider.ts';

const verified = { sub: 'u', email: 'ann@example.test', email_verified: true };

test('an address is verified only by the source that it comes from', () => {
  expect(mergeClaims(verified, { sub: 'u', groups: ['a'] })).toEqual({ ...verified, groups: ['a'] });
  expect(mergeClaims(verified, { sub: 'u', email: 'boss@example.test' })['email_verified']).toBeUndefined();
  expect(
    mergeClaims({ sub: 'u', email: 'boss@example.test' }, { sub: 'u', email_verified: true })['email_verified'],
  ).toBeUndefined();
  expect(mergeClaims(verified, { sub: 'u', email: 'ann@example.test' })['email_verified']).toBe(true);
  expect(mergeClaims(verified, { ...verified, email_verified: 'false' })['email_verified']).toBe('false');
});
