/** Tokens of the operator's services: what each may do, on whose behalf, and how tokens are replaced without a restart. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { AdminService, KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { CredentialKind, CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import { fromConnectError } from '../../src/rpc/errors.ts';
import { rpcRequest } from '../e2e/upstream-callers.ts';
import { endGateway, type Gateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const config = (metering: string): string => `
simulator: { tokens_per_second: 0 }
rpc:
  tokens:
    - { name: metering, token: ${metering}, scopes: [metering] }
    - { name: reader, token: reader-secret-000000000000, scopes: ["admin:read"] }
    - { name: writer, token: writer-secret-000000000000, scopes: ["generate"] }
    - { name: admin, token: admin-secret-0000000000000, scopes: ["admin:read", "admin:write"] }
    - { name: bodies, token: bodies-secret-000000000000, scopes: ["bodies:read"] }
`;

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ config: config('metering-secret-1-00000000') });
});
afterAll(() => endGateway(gateway));

function client<S extends Parameters<typeof createClient>[0]>(
  service: S,
  token: string,
  headers: Record<string, string> = {},
): Client<S> {
  const transport = createGrpcTransport({
    baseUrl: gateway.rpcUrl,
    interceptors: [
      next => request => {
        for (const [name, value] of Object.entries({ authorization: `Bearer ${token}`, ...headers })) {
          request.header.set(name, value);
        }
        return next(request);
      },
    ],
  });
  return createClient(service, transport);
}

async function readErrorCode(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'ok';
  } catch (thrown) {
    return fromConnectError(thrown).code;
  }
}

let lastId = 0n;
function admit(token: string): Promise<string> {
  lastId += 1n;
  const work = { id: lastId, apiKeyId: 1n, model: 'acme/render', amountNanoUsd: 0n };
  return readErrorCode(
    client(AccountingService, token)
      .admit(work)
      .then(() => client(AccountingService, token).void({ id: work.id })),
  );
}

test('a token may do what its scopes allow and nothing else', async () => {
  const [metering, reader, writer] = [
    'metering-secret-1-00000000',
    'reader-secret-000000000000',
    'writer-secret-000000000000',
  ];
  const outcomes = [];
  for (const token of [metering, reader, writer]) {
    const admin = client(AdminService, token);
    outcomes.push([
      await admit(token),
      await readErrorCode(admin.listAccounts({})),
      await readErrorCode(admin.createAccount({ name: 'x' })),
      await readErrorCode(
        Array.fromAsync(client(GenerationService, token).generate(rpcRequest('sim/large', Delivery.WHOLE))),
      ),
    ]);
  }
  const no = 'permission_denied';
  expect(outcomes).toEqual([
    ['ok', no, no, 'invalid_api_key'],
    [no, 'ok', no, 'invalid_api_key'],
    [no, no, no, 'invalid_api_key'],
  ]);
  expect(await client(CredentialService, metering).authenticate({})).toMatchObject({
    kind: CredentialKind.SERVICE,
    scopes: ['metering'],
  });
});

test('no token that shows and changes what AdminService has gets an operator’s session or the bodies of clients', async () => {
  const call = (token: string): Promise<string[]> => {
    const admin = client(AdminService, token);
    return Promise.all(
      [admin.createSignInLink({}), admin.getAccountRequestBodies({ requestId: 'req_1' }), admin.listAccounts({})].map(
        readErrorCode,
      ),
    );
  };
  const no = 'permission_denied';
  expect(await call('admin-secret-0000000000000')).toEqual([no, no, 'ok']);
  expect(await call('bodies-secret-000000000000')).toEqual([no, 'not_found', no]);
});

test('a service can generate on behalf of a key: the key pays and its limits apply; no other credential can do that', async () => {
  const key = await makeKey(gateway);
  const on = { 'x-tollgate-api-key-id': String(key.id) };
  const generate = (token: string, headers: Record<string, string>): Promise<string> =>
    readErrorCode(
      Array.fromAsync(client(GenerationService, token, headers).generate(rpcRequest('sim/large', Delivery.WHOLE))),
    );
  const writer = 'writer-secret-000000000000';
  expect(await generate(writer, on)).toBe('ok');
  const { records } = await gateway.account.listActivity({ apiKeyId: key.id });
  expect(records).toHaveLength(1);
  expect(await generate(writer, { 'x-tollgate-api-key-id': '999' })).toBe('invalid_api_key');
  expect(await generate('reader-secret-000000000000', on)).toBe('invalid_api_key');
  expect(await generate(gateway.apiKey, { ...on, 'x-tollgate-acts-for': String(key.id) })).toBe('ok');
  await gateway.admin.setApiKeyState({ apiKeyId: key.id, state: KeyState.REVOKED });
  expect(await generate(writer, on)).toBe('invalid_api_key');
  expect(await generate('', { 'x-tollgate-acts-for': '1' })).toBe('invalid_api_key');
  // The call named another key, but the key of the caller paid.
  expect((await gateway.account.listActivity({ apiKeyId: key.id })).records).toHaveLength(1);
});

test('tokens are replaced by reloads: both are valid during the change, then only the new one', async () => {
  const [before, after] = ['metering-secret-1-00000000', 'metering-secret-2-00000000'];
  const reload = async (tokens: string): Promise<void> => {
    writeFileSync(join(gateway.home.folder, 'gateway.yaml'), config(tokens));
    await gateway.admin.reloadConfiguration({});
  };
  expect([await admit(before), await admit(after)]).toEqual(['ok', 'invalid_api_key']);
  await reload(`[${after}, ${before}]`);
  expect([await admit(before), await admit(after)]).toEqual(['ok', 'ok']);
  await reload(after);
  expect([await admit(before), await admit(after)]).toEqual(['invalid_api_key', 'ok']);

  const file = join(gateway.dataDir, 'operator.token');
  const old = readFileSync(file, 'utf8').trim();
  const fresh = 'op-tg-fresh0000000000000000000000000';
  writeFileSync(file, `${fresh}\n${old}\n`);
  // The gateway has not read the first line yet.
  expect((await gateway.cli(['reload'])).code).toBe(0);
  expect((await gateway.cli(['accounts', 'list', '--json'])).code).toBe(0);
  expect([await admit(old), await admit(fresh)]).toEqual(['ok', 'ok']);
  writeFileSync(file, `${fresh}\n`);
  await client(AdminService, fresh).reloadConfiguration({});
  expect([await admit(old), await admit(fresh)]).toEqual(['invalid_api_key', 'ok']);
  appendFileSync(file, `${old}\n`);
  await client(AdminService, fresh).reloadConfiguration({});
});
