/** Which scope of a service token each method of the contract needs: every method is called with a token of every scope. A new method fails here until its scope is in the table. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DescMethod, type DescService } from '@bufbuild/protobuf';
import { request } from 'undici';
import { afterAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { BatchService, FileService } from '../../src/gen/tollgate/v1/batch_pb.ts';
import { CatalogService } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { ConversationService } from '../../src/gen/tollgate/v1/conversation_pb.ts';
import { CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import { EmbeddingService } from '../../src/gen/tollgate/v1/embedding_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../../src/gen/tollgate/v1/image_pb.ts';
import { RerankService } from '../../src/gen/tollgate/v1/rerank_pb.ts';
import { ResponseService } from '../../src/gen/tollgate/v1/response_pb.ts';
import { allScopes } from '../../src/core/scopes.ts';
import { serviceScopes } from '../../src/core/service-tokens.ts';
import { endGateway, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const services: readonly DescService[] = [
  AccountService,
  AccountingService,
  AdminService,
  BatchService,
  CatalogService,
  ConversationService,
  CredentialService,
  EmbeddingService,
  FileService,
  GenerationService,
  ImageService,
  RerankService,
  ResponseService,
];

function tokenFor(scope: string): string {
  return `${scope.replace(':', '-')}-secret-000000000000000`;
}

const tokens = serviceScopes.map(
  scope => `    - { name: "${scope.replace(':', '-')}", token: ${tokenFor(scope)}, scopes: ["${scope}"] }`,
);
const gateway = await startGateway({ config: `rpc:\n  tokens:\n${tokens.join('\n')}\n` });
afterAll(() => endGateway(gateway));

/** Calls a method with an empty message. Returns the code of the gateway's error; 'ok' if there is none. */
async function call(
  service: DescService,
  { name, methodKind }: DescMethod,
  token: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const isUnary = methodKind === 'unary';
  const text = Buffer.from('{}');
  const { body } = await request(`${gateway.rpcUrl}/${service.typeName}/${name}`, {
    method: 'POST',
    headers: {
      ...more,
      authorization: `Bearer ${token}`,
      'content-type': isUnary ? 'application/json' : 'application/connect+json',
      'connect-protocol-version': '1',
      // Methods that wait for something to happen are allowed if they wait.
      'connect-timeout-ms': '1000',
    },
    body: isUnary ? text : Buffer.concat([Buffer.from([0, 0, 0, 0, text.length]), text]),
  });
  const reply = await body.text();
  return readCode(reply);
}

function readCode(reply: string): string {
  return /"code":"([a-z_]+)","message"/.exec(reply)?.[1] ?? 'ok';
}

const refusals = new Set(['permission_denied', 'unauthenticated']);

/** Returns, for each method of a service, which of the credentials may call it. */
async function walk(
  service: DescService,
  credentials: Readonly<Record<string, string>>,
  more: Readonly<Record<string, string>> = {},
) {
  const found: Record<string, string> = {};
  for (const method of service.methods) {
    const allowed: string[] = [];
    for (const [name, credential] of Object.entries(credentials)) {
      if (!refusals.has(await call(service, method, credential, more))) allowed.push(name);
    }
    found[method.name] = allowed.join(' ');
  }
  return found;
}

/** The methods of each service by what they need: `any` credential, an API key, a scope of a management key, or a scope of a service token. */
const needs: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  AccountService: {
    'keys:read': 'ListKeys GetKey',
    'keys:create': 'CreateKey',
    'keys:update': 'UpdateKey RotateKey',
    'keys:delete': 'DeleteKey',
    'limits:read': 'ListLimits GetLimit GetNextPayment',
    'limits:write': 'CreateLimit UpdateLimit DeleteLimit',
    'groups:read': 'ListGroups GetGroup',
    'groups:write': 'CreateGroup UpdateGroup DeleteGroup',
    'account:read': 'GetOwnAccount ListEntries GetAnalytics',
    'webhooks:write': 'UpdateOwnAccount CreateWebhook UpdateWebhook DeleteWebhook ReplayWebhookEvent',
    'webhooks:read': 'ListWebhooks GetWebhook ListWebhookEvents',
    api_key: 'GetOwnKey',
    'account:balance': 'GetBalance',
    'audit:read': 'ListAudit',
    'account:activity': 'ListActivity GetActivity',
    'account:bodies': 'GetRequestBodies',
  },
  AccountingService: {
    metering: 'Admit Extend Settle Void',
  },
  AdminService: {
    'admin:write':
      'CreateAccount AddCredit ResumeAccount UpdateAccount CloseAccount CreateAccountWebhook UpdateAccountWebhook DeleteAccountWebhook ReplayAccountWebhookEvent CreateApiKey SetApiKeyState SetMonthlyLimit RotateApiKey CreateAccountLimit UpdateAccountLimit DeleteAccountLimit CreateAccountGroup UpdateAccountGroup DeleteAccountGroup UpdateApiKey CreateManagementKey SetManagementKeyScopes SetManagementKeyState StartSubscription CancelSubscription ReloadConfiguration DescribeGateway TestProvider RevokeSession CheckConfiguration VerifyLedger',
    'admin:read':
      'ListAccounts GetAccount ListAccountWebhooks ListAccountWebhookEvents ListApiKeys GetApiKeyUsage GetApiKey GetKeyNextPayment ListAccountLimits ListAccountGroups ListManagementKeys ListPlans GetSubscription ListAccountActivity GetAccountActivity GetAccountAnalytics ListAccountEntries ListAccountAudit ListVoidedHolds ListProviders ListRoutes ListSessions GetConfiguration GetStorage',
    'bodies:read': 'GetAccountRequestBodies',
    operator: 'CreateSignInLink',
  },
  BatchService: {
    api_key: 'CreateBatch GetBatch ListBatches CancelBatch DeleteBatch ReadResults',
  },
  CatalogService: {
    any: 'ListModels GetModel',
  },
  ConversationService: {
    api_key:
      'CreateConversation GetConversation UpdateConversation DeleteConversation AddConversationItems ListConversationItems GetConversationItem DeleteConversationItem',
  },
  CredentialService: {
    any: 'Authenticate',
  },
  EmbeddingService: {
    api_key: 'Embed',
  },
  FileService: {
    api_key: 'CreateFile AppendFile FinishFile GetFile ListFiles DeleteFile ReadFileContent',
  },
  GenerationService: {
    api_key: 'Generate',
    any: 'CountTokens',
  },
  ImageService: {
    api_key: 'Generate Edit CreateTask GetTask',
    any: 'ReadFile',
  },
  RerankService: {
    api_key: 'Rerank',
  },
  ResponseService: {
    api_key:
      'CreateResponse GetResponse FollowResponse CancelResponse DeleteResponse ListInputItems CountInputTokens CompactConversation EndSession',
  },
};

/** Returns, for each method of a service, the result of `allowed` for what it needs. */
function expected({ name }: DescService, allowed: (need: string) => readonly string[]): Record<string, string> {
  const lines = Object.entries(needs[name] ?? {});
  return Object.fromEntries(
    lines.flatMap(([need, methods]) => methods.split(' ').map(each => [each, allowed(need).join(' ')])),
  );
}

const scopes: readonly string[] = serviceScopes;
const tokensByScope = Object.fromEntries(serviceScopes.map(scope => [scope, tokenFor(scope)]));
const keys: Record<string, string> = { api_key: gateway.apiKey };
for (const scope of allScopes) {
  const { key } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: [scope] });
  keys[scope] = key?.key ?? '';
}

/** Returns the scopes of service tokens that may call a method; `others`: those that may call a method that needs no scope of them. */
function tokensFor(need: string, others: readonly string[]): readonly string[] {
  if (need === 'any') return scopes;
  return scopes.includes(need) ? scopes.filter(scope => scope === need || scope === 'operator') : others;
}

test.for(services)(
  '$name: a service token may call what its scope names, and acts for a key only with `generate`',
  { timeout: 120_000 },
  async service => {
    expect(await walk(service, tokensByScope)).toEqual(expected(service, need => tokensFor(need, [])));
    const forKey = await walk(service, tokensByScope, { 'x-tollgate-api-key-id': '1' });
    expect(forKey).toEqual(
      expected(service, need => tokensFor(need, need === 'api_key' ? ['operator', 'generate'] : [])),
    );
  },
);

test.for(services)(
  '$name: an API key and each scope of a management key may call their methods and no other',
  { timeout: 120_000 },
  async service => {
    const allowed = (need: string): readonly string[] =>
      Object.keys(keys).filter(name => need === 'any' || need === name);
    expect(await walk(service, keys)).toEqual(expected(service, allowed));
  },
);

test('every service of the contract was called; DashboardService takes sessions only', () => {
  const folder = join(root, 'proto/tollgate/v1');
  const contract = readdirSync(folder).map(file => readFileSync(join(folder, file), 'utf8'));
  const names = contract.flatMap(text => [...text.matchAll(/^service (\w+) /gm)].map(([, name = '']) => name));
  const others = names.filter(name => name !== 'DashboardService');
  expect(services.map(({ name }) => name)).toEqual(others.toSorted((one, other) => (one < other ? -1 : 1)));
});

test('a service token without `bodies:read` makes no management key that reads bodies', async () => {
  const create = async (scope: string, granted: string): Promise<string> => {
    const { body } = await request(`${gateway.rpcUrl}/${AdminService.typeName}/CreateManagementKey`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokenFor(scope)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ accountId: '1', scopes: [granted] }),
    });
    return readCode(await body.text());
  };
  const outcomes: string[] = [];
  for (const scope of ['admin-write', 'operator']) {
    for (const granted of ['account:read', 'account:bodies', 'all']) outcomes.push(await create(scope, granted));
  }
  expect(outcomes).toEqual(['ok', 'permission_denied', 'permission_denied', 'ok', 'ok', 'ok']);
  const { key } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['account:read'] });
  const { body } = await request(`${gateway.rpcUrl}/${AdminService.typeName}/SetManagementKeyScopes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokenFor('admin:write')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ managementKeyId: String(key?.managementKeyId), scopes: ['account:bodies'] }),
  });
  expect(readCode(await body.text())).toBe('permission_denied');
});
