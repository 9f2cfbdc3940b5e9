import type { DescService } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allScopes, type Scope } from '../../src/core/credential.ts';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { AdminService, KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { CredentialKind, CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import { type ControlPlane, catchRefusal, startControlPlane } from './control-plane.ts';

let plane: ControlPlane;
let apiKey = '';
let everyScope = '';
const revoked: string[] = [];
const disabled: string[] = [];

beforeAll(async () => {
  plane = await startControlPlane();
  const { admin } = plane;
  await admin.createAccount({ name: 'one', balanceNanoUsd: 10_000_000_000n });
  const newKey = async () => (await admin.createApiKey({ accountId: 1n })).key;
  const newManagementKey = async () => (await admin.createManagementKey({ accountId: 1n, scopes: ['all'] })).key;
  apiKey = (await newKey())?.key ?? '';
  everyScope = (await newManagementKey())?.key ?? '';
  for (const [state, into] of [
    [KeyState.REVOKED, revoked],
    [KeyState.DISABLED, disabled],
  ] as const) {
    const [key, managementKey] = [await newKey(), await newManagementKey()];
    into.push(key?.key ?? '', managementKey?.key ?? '');
    await admin.setApiKeyState({ apiKeyId: key?.apiKeyId ?? 0n, state });
    await admin.setManagementKeyState({ managementKeyId: managementKey?.managementKeyId ?? 0n, state });
  }
});
afterAll(() => plane.close());

/** The credential that each method needs. If a method is missing, the first test fails. */
const accountScopes: Record<keyof typeof AccountService.method, Scope | 'an API key'> = {
  listKeys: 'keys:read',
  createKey: 'keys:create',
  getKey: 'keys:read',
  updateKey: 'keys:update',
  deleteKey: 'keys:delete',
  getNextPayment: 'limits:read',
  getBalance: 'account:balance',
  listActivity: 'account:activity',
  getActivity: 'account:activity',
  getRequestBodies: 'account:bodies',
  getAnalytics: 'account:read',
  rotateKey: 'keys:update',
  listLimits: 'limits:read',
  createLimit: 'limits:write',
  getLimit: 'limits:read',
  updateLimit: 'limits:write',
  deleteLimit: 'limits:write',
  listGroups: 'groups:read',
  createGroup: 'groups:write',
  getGroup: 'groups:read',
  updateGroup: 'groups:write',
  deleteGroup: 'groups:write',
  getOwnKey: 'an API key',
  listEntries: 'account:read',
  listAudit: 'audit:read',
  getOwnAccount: 'account:read',
  updateOwnAccount: 'webhooks:write',
  listWebhooks: 'webhooks:read',
  createWebhook: 'webhooks:write',
  getWebhook: 'webhooks:read',
  updateWebhook: 'webhooks:write',
  deleteWebhook: 'webhooks:write',
  listWebhookEvents: 'webhooks:read',
  replayWebhookEvent: 'webhooks:write',
};
const services: readonly DescService[] = [
  CredentialService,
  CatalogService,
  AccountService,
  AccountingService,
  AdminService,
];
const methods = services.flatMap(service => service.methods.map(({ localName }) => ({ service, localName })));

function findScope(service: DescService, method: string): Scope | 'an API key' | undefined {
  return service === AccountService ? accountScopes[method as keyof typeof accountScopes] : undefined;
}

/** Calls a method with an empty request. */
function call({ service, localName }: (typeof methods)[number], credential: string | null, headers = {}) {
  const client = plane.client(service, credential) as Record<string, (request: object, options: object) => unknown>;
  return client[localName]?.({}, { headers }) as Promise<unknown>;
}

test('every method refuses a missing, malformed, unknown, revoked or doubled credential with invalid_api_key', async () => {
  expect(methods).toHaveLength(98);
  const wrong = [null, 'nonsense', `sk-tg-${'0'.repeat(43)}`, `mk-tg-${'0'.repeat(43)}`, `op-tg-${'0'.repeat(43)}`];
  for (const method of methods) {
    for (const credential of [...wrong, ...revoked]) {
      const { code, httpStatus } = await catchRefusal(call(method, credential));
      expect([method.localName, credential, code, httpStatus]).toEqual([
        method.localName,
        credential,
        'invalid_api_key',
        401,
      ]);
    }
    // Each of the two would be accepted by some method if it were the only one.
    for (const headers of [
      { authorization: `Bearer ${everyScope}`, 'x-api-key': apiKey },
      { authorization: 'Basic abc' },
    ]) {
      expect((await catchRefusal(call(method, null, headers))).code).toBe('invalid_api_key');
    }
  }
});

test('every method refuses a disabled key with key_disabled and names the command that enables it', async () => {
  for (const method of methods) {
    const [apiKeyTip, managementKeyTip] = await Promise.all(
      disabled.map(async credential => {
        const { code, tip, httpStatus } = await catchRefusal(call(method, credential));
        expect([method.localName, code, httpStatus]).toEqual([method.localName, 'key_disabled', 403]);
        return tip;
      }),
    );
    expect(apiKeyTip).toMatch(/npx tollgate keys enable \d+\./);
    expect(managementKeyTip).toMatch(/npx tollgate management-keys enable \d+\./);
  }
});

test('with an API key, a caller can look the key up and list models, and nothing else', async () => {
  for (const method of methods) {
    const isOpen = method.service === CredentialService || method.service === CatalogService;
    const mayCall = isOpen || method.localName === 'getOwnKey';
    expect([method.localName, await outcome(method, apiKey)]).toEqual([
      method.localName,
      mayCall ? 'passed' : 'permission_denied',
    ]);
  }
});

test('with a management key, a caller can manage the account, look the key up and list models, and nothing else', async () => {
  for (const method of methods) {
    const isOperators = method.service === AccountingService || method.service === AdminService;
    const mayCall = !isOperators && method.localName !== 'getOwnKey';
    expect([method.localName, await outcome(method, everyScope)]).toEqual([
      method.localName,
      mayCall ? 'passed' : 'permission_denied',
    ]);
  }
});

test('the operator’s token is accepted by every service except AccountService', async () => {
  for (const method of methods) {
    const code = method.service === AccountService ? 'invalid_api_key' : 'passed';
    expect([method.localName, await outcome(method, plane.token)]).toEqual([method.localName, code]);
  }
});

test('each account method needs a scope, which the refusal names', async () => {
  for (const scope of allScopes) {
    const { key } = await plane.admin.createManagementKey({ accountId: 1n, scopes: [scope] });
    const own = methods.filter(({ service, localName }) => service === AccountService && localName !== 'getOwnKey');
    for (const method of own) {
      const needed = findScope(method.service, method.localName);
      if (needed === scope) expect(await outcome(method, key?.key ?? '')).toBe('passed');
      else {
        const { code, message } = await catchRefusal(call(method, key?.key ?? ''));
        expect([method.localName, code, message]).toEqual([
          method.localName,
          'permission_denied',
          `The management key lacks the scope ${needed ?? ''}.`,
        ]);
      }
    }
  }
});

test('a credential may be in x-api-key or in authorization, or in both if they are equal', async () => {
  const method = { service: AccountService, localName: 'getBalance' };
  expect(await call(method, null, { 'x-api-key': everyScope })).toMatchObject({ balanceNanoUsd: 10_000_000_000n });
  expect(await call(method, everyScope, { 'x-api-key': everyScope })).toMatchObject({
    balanceNanoUsd: 10_000_000_000n,
  });
});

test('Authenticate returns what a credential is, with its request windows if requested', async () => {
  const tell = (credential: string, limits = false) =>
    plane.client(CredentialService, credential).authenticate({ limits });
  expect(await tell(plane.token)).toMatchObject({
    kind: CredentialKind.OPERATOR,
    accountId: 0n,
    keyId: 0n,
    scopes: [],
  });
  expect(await tell(everyScope)).toMatchObject({
    kind: CredentialKind.MANAGEMENT_KEY,
    accountId: 1n,
    scopes: [...allScopes],
  });
  const { key } = await plane.admin.createApiKey({ accountId: 1n, settings: { minuteLimit: 7n } });
  const text = key?.key ?? '';
  expect(await tell(text)).toMatchObject({ kind: CredentialKind.API_KEY, keyId: key?.apiKeyId, limits: [] });
  expect((await tell(text, true)).limits).toMatchObject([{ limit: 'minute_limit', max: 7n, remaining: 7n }]);
});

test('a key with allowed models lists only those, an operator and a management key list all', async () => {
  const list = async (credential: string) => {
    const { models } = await plane.client(CatalogService, credential).listModels({});
    return models.map(({ id }) => id);
  };
  const settings = { allowedModels: { models: ['large'] } };
  const { key } = await plane.admin.createApiKey({ accountId: 1n, settings });
  expect(await list(key?.key ?? '')).toEqual(['acme/large']);
  const all = ['acme/large', 'acme/small:free'];
  expect([await list(apiKey), await list(everyScope), await list(plane.token)]).toEqual([all, all, all]);
});

test('changes of state and scopes apply from the next call on', async () => {
  const { key } = await plane.admin.createManagementKey({ accountId: 1n, scopes: ['keys:read'] });
  const managementKeyId = key?.managementKeyId ?? 0n;
  const client = plane.client(AccountService, key?.key ?? '');
  await client.listKeys({});
  await plane.admin.setManagementKeyScopes({ managementKeyId, scopes: ['account:balance'] });
  expect((await catchRefusal(client.listKeys({}))).code).toBe('permission_denied');
  await client.getBalance({});
  await plane.admin.setManagementKeyState({ managementKeyId, state: KeyState.DISABLED });
  expect((await catchRefusal(client.getBalance({}))).code).toBe('key_disabled');
  await plane.admin.setManagementKeyState({ managementKeyId, state: KeyState.ENABLED });
  await client.getBalance({});
  await plane.admin.setManagementKeyState({ managementKeyId, state: KeyState.REVOKED });
  expect((await catchRefusal(client.getBalance({}))).code).toBe('invalid_api_key');
});

/** Returns the code if the credential was refused, else `passed`. An empty request may be refused for a missing field, which means that the credential was accepted. */
async function outcome(method: (typeof methods)[number], credential: string): Promise<string> {
  const answer = call(method, credential);
  const passed = await answer.then(
    () => true,
    () => false,
  );
  if (passed) return 'passed';
  const { code } = await catchRefusal(answer);
  return ['validation_error', 'not_found'].includes(code) ? 'passed' : code;
}
