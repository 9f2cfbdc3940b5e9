import type { DescService } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyMaterial, makeKey } from '../../src/core/keys.ts';
import { roleScopes } from '../../src/core/session-access.ts';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import type { SessionRole } from '../../src/ledger/ledger.ts';
import { type ControlPlane, catchRefusal, startControlPlane } from './control-plane.ts';

let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane();
  for (const name of ['one', 'two']) await plane.admin.createAccount({ name, balanceNanoUsd: 10_000_000_000n });
  for (const accountId of [1n, 2n]) await plane.admin.createApiKey({ accountId });
});
afterAll(() => plane.close());

/** Signs in a person without a key, as through an identity provider. */
async function signIn(role: SessionRole, accountId: number | null, lifetimeMs = 3_600_000): Promise<string> {
  const { text, hash } = makeKey('session');
  const endsAtMs = plane.clock.now() + lifetimeMs;
  await plane.ledger.createSession({ role, accountId, hash, keyHash: null, subject: 'ann', endsAtMs });
  return text;
}

const services: readonly DescService[] = [AccountService, AdminService, AccountingService, CatalogService];
const methods = services.flatMap(service => service.methods.map(({ localName }) => ({ service, localName })));

/** Returns the code with which an empty request is refused because of the credential; otherwise `passed`. */
async function outcome(
  { service, localName }: (typeof methods)[number],
  credential: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const client = plane.client(service, credential) as Record<string, (request: object, options: object) => unknown>;
  const call = client[localName]?.({}, { headers }) as Promise<unknown>;
  const isDone = await call.then(
    () => true,
    () => false,
  );
  if (isDone) return 'passed';
  const { code } = await catchRefusal(call);
  return ['invalid_api_key', 'permission_denied', 'key_disabled'].includes(code) ? code : 'passed';
}

test.each(['owner', 'member', 'viewer'] as const)(
  'a session of the role %s may call what a management key of its scopes may, and nothing else',
  async role => {
    const session = await signIn(role, 1);
    const { key } = await plane.admin.createManagementKey({ accountId: 1n, scopes: [...roleScopes[role]] });
    for (const method of methods) {
      const expected = await outcome(method, key?.key ?? '');
      expect([method.localName, await outcome(method, session)]).toEqual([method.localName, expected]);
      // Only the operator may name an account.
      const named = await outcome(method, session, { 'x-tollgate-account-id': '2' });
      expect([method.localName, named]).toEqual([method.localName, expected]);
    }
  },
);

test('the operator’s session may call what the operator’s token may, and AccountService for the account that it names', async () => {
  const session = await signIn('operator', null);
  const { key } = await plane.admin.createManagementKey({ accountId: 1n, scopes: ['all'] });
  for (const method of methods) {
    const isAccounts = method.service === AccountService;
    const named = await outcome(method, session, { 'x-tollgate-account-id': '1' });
    const like = isAccounts ? (key?.key ?? '') : plane.token;
    expect([method.localName, named]).toEqual([method.localName, await outcome(method, like)]);
    const expected = isAccounts ? 'permission_denied' : named;
    expect([method.localName, await outcome(method, session)]).toEqual([method.localName, expected]);
  }
});

test('another account’s keys are not found, whatever ids a person sends', async () => {
  const owner = plane.client(AccountService, await signIn('owner', 2));
  const headers = { 'x-tollgate-account-id': '1' };
  expect((await owner.listKeys({}, { headers })).keys.map(({ accountId }) => accountId)).toEqual([2n]);
  for (const call of [
    () => owner.getKey({ apiKeyId: 1n }, { headers }),
    () => owner.deleteKey({ apiKeyId: 1n }, { headers }),
    () => owner.getOwnKey({}, { headers: { 'x-tollgate-api-key-id': '1' } }),
  ]) {
    expect((await catchRefusal(call())).code).toBe('not_found');
  }
});

test('a session that may create keys may act for any key of its account by its id; the operator may act for every key', async () => {
  const own = async (session: string, keyId: string) => {
    const headers = { 'x-tollgate-api-key-id': keyId };
    const call = plane.client(AccountService, session).getOwnKey({}, { headers });
    return call.then(
      ({ apiKeyId }) => apiKeyId,
      async () => (await catchRefusal(call)).code,
    );
  };
  expect(await own(await signIn('member', 1), '1')).toBe(1n);
  expect(await own(await signIn('member', 1), '2')).toBe('not_found');
  expect(await own(await signIn('viewer', 1), '1')).toBe('permission_denied');
  expect(await own(await signIn('operator', null), '2')).toBe(2n);
  for (const keyId of ['', 'x', '-1', '1e3', '99']) {
    expect(await own(await signIn('owner', 1), keyId)).toBe(keyId === '99' ? 'not_found' : 'permission_denied');
  }
});

test('a session ends at its expiry, or when the credential that was used to sign in is revoked', async () => {
  const session = plane.client(AccountService, await signIn('owner', 1, 1_000));
  await session.getBalance({});
  plane.clock.advance(1_000);
  expect(await catchRefusal(session.getBalance({}))).toMatchObject({
    code: 'invalid_api_key',
    message: 'The session has ended.',
  });
  const { key } = await plane.admin.createApiKey({ accountId: 1n });
  const { text, hash } = makeKey('session');
  const { hash: keyHash } = keyMaterial(key?.key ?? '');
  const endsAtMs = plane.clock.now() + 3_600_000;
  await plane.ledger.createSession({ role: 'member', accountId: 1, hash, keyHash, subject: 'a key', endsAtMs });
  const holder = plane.client(AccountService, text);
  await holder.getOwnKey({});
  await plane.admin.rotateApiKey({ apiKeyId: key?.apiKeyId ?? 0n, overlapSeconds: 60 });
  await holder.getOwnKey({});
  plane.clock.advance(60_000);
  expect((await catchRefusal(holder.getOwnKey({}))).code).toBe('invalid_api_key');
});
