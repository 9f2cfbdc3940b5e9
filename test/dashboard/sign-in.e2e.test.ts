import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { DashboardService, PersonRole } from '../../src/gen/tollgate/v1/dashboard_pb.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway, runCommand, startGateway } from '../gateway.ts';
import { isStored } from '../stored-content.ts';
import { PageCaller } from './page-caller.ts';

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({});
});
afterAll(() => endGateway(gateway));

const readErrorCode = (call: Promise<unknown>): Promise<Code> =>
  call.then(
    () => Promise.reject(new Error('it was answered')),
    (thrown: unknown) => ConnectError.from(thrown).code,
  );

async function newLink(): Promise<string> {
  const { url } = await gateway.admin.createSignInLink({});
  expect(url.startsWith(`${gateway.rpcUrl}/dashboard/sign-in#token=lk-tg-`)).toBe(true);
  return url.split('#token=')[1] ?? '';
}

test('the first start prints a link that signs the operator in once, even if the keys come from environment variables', async () => {
  const [, token = ''] = /\/dashboard\/sign-in#token=(lk-tg-\w+)/.exec(gateway.printed()) ?? [];
  const page = new PageCaller(gateway.rpcUrl);
  const identity = await page.signIn(token);
  expect(identity).toMatchObject({
    role: PersonRole.OPERATOR,
    accountId: 0n,
    isInternal: true,
    internalUrl: gateway.rpcUrl,
  });
  expect(await readErrorCode(new PageCaller(gateway.rpcUrl).signIn(token))).toBe(Code.Unauthenticated);
  expect((await page.client(AdminService).listAccounts({})).accounts).toHaveLength(1);
  page.set('x-tollgate-account-id', '1');
  expect((await page.client(AccountService).listKeys({})).keys).toHaveLength(1);
});

test('`tollgate dashboard` prints a link, which works for exactly one session', async () => {
  const printed = await gateway.cli(['dashboard']);
  expect(printed.code).toBe(0);
  const page = new PageCaller(gateway.rpcUrl);
  const { sessionId } = await page.signIn(printed.stdout.trim().split('#token=')[1] ?? '');
  const { json } = await runInside(gateway, ['sessions', 'list', '--json']);
  expect(json).toMatchObject({
    data: expect.arrayContaining([expect.objectContaining({ session_id: Number(sessionId), role: 'operator' })]),
  });
  expect((await runInside(gateway, ['sessions', 'revoke', String(sessionId)])).code).toBe(0);
  expect(await readErrorCode(page.client(DashboardService).whoAmI({}))).toBe(Code.Unauthenticated);
  expect((await runInside(gateway, ['sessions', 'revoke', String(sessionId)])).code).toBe(1);
});

test('tollgate dashboard opens the printed link in a browser where there is one, and in none with BROWSER=none', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-browser-'));
  const opened = join(folder, 'opened');
  // Also a program called none: that must not be taken for a browser.
  for (const name of ['xdg-open', 'none'])
    writeFileSync(join(folder, name), `#!/bin/sh\nprintf '%s' "$1" > "${opened}"\n`, { mode: 0o755 });
  const run = (more: Record<string, string>) =>
    runCommand(gateway.home, ['dashboard'], {
      TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port,
      PATH: `${folder}:${process.env['PATH'] ?? ''}`,
      DISPLAY: ':0',
      ...more,
    });
  try {
    const silent = await run({ BROWSER: 'none' });
    expect([silent.code, silent.stdout.includes('#token=')]).toEqual([0, true]);
    // A program that it had started would write within that time.
    await setTimeout(1_000);
    expect(existsSync(opened)).toBe(false);
    const shown = await run({});
    await expect.poll(() => existsSync(opened) && readFileSync(opened, 'utf8')).toBe(shown.stdout.trim());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the operator’s sessions and links are not accepted on the public listener', async () => {
  const page = new PageCaller(gateway.url);
  expect(await readErrorCode(page.signIn(await newLink()))).toBe(Code.PermissionDenied);
  const internal = new PageCaller(gateway.rpcUrl);
  await internal.signIn(await newLink());
  page.cookie = internal.cookie.replace('tollgate_internal_session', 'tollgate_session');
  expect(await readErrorCode(page.client(DashboardService).whoAmI({}))).toBe(Code.PermissionDenied);
  expect(await readErrorCode(page.client(AdminService).listAccounts({}))).toBe(Code.NotFound);
  const bearer = new PageCaller(gateway.url).set('authorization', `Bearer ${internal.cookie.split('=')[1] ?? ''}`);
  expect(await readErrorCode(bearer.client(AccountService).listKeys({}))).toBe(Code.PermissionDenied);
});

test('a management key signs in with its scopes, and revoking it ends its sessions', async () => {
  const { key } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['keys:read'] });
  const page = new PageCaller(gateway.url);
  expect(await page.signIn(key?.key ?? '')).toMatchObject({
    role: PersonRole.VIEWER,
    accountId: 1n,
    scopes: ['keys:read'],
    isInternal: false,
  });
  expect((await page.client(AccountService).listKeys({})).keys).toHaveLength(1);
  expect(await readErrorCode(page.client(AccountService).getBalance({}))).toBe(Code.PermissionDenied);
  await gateway.admin.setManagementKeyState({ managementKeyId: key?.managementKeyId ?? 0n, state: 3 });
  expect(await readErrorCode(page.client(AccountService).listKeys({}))).toBe(Code.Unauthenticated);
});

test('an API key signs in as its holder, who sees only the requests of that key', async () => {
  const page = new PageCaller(gateway.url);
  const identity = await page.signIn(gateway.apiKey);
  expect(identity).toMatchObject({ role: PersonRole.MEMBER, accountId: 1n, apiKeyId: 1n, subject: 'API key 1' });
  const account = page.client(AccountService);
  expect((await account.getOwnKey({})).apiKeyId).toBe(1n);
  expect((await account.listActivity({ own: true })).records).toEqual([]);
  for (const call of [() => account.listKeys({}), () => account.listActivity({}), () => account.getBalance({})]) {
    expect(await readErrorCode(call())).toBe(Code.PermissionDenied);
  }
});

test('a session survives a restart, and signing out ends it', async () => {
  const home = gateway.home;
  const page = new PageCaller(gateway.url);
  await page.signIn(gateway.managementKey);
  const { cookie } = page;
  await gateway.stop();
  gateway = await startGateway({ home });
  const again = new PageCaller(gateway.url);
  again.cookie = cookie;
  expect(await again.client(DashboardService).whoAmI({})).toMatchObject({
    role: PersonRole.OWNER,
    subject: 'management key 1',
  });
  await again.client(DashboardService).signOut({});
  expect(again.cookie).toBe('tollgate_session=');
  again.cookie = cookie;
  expect(await readErrorCode(again.client(DashboardService).whoAmI({}))).toBe(Code.Unauthenticated);
});

test('scripts and other sites can’t read the cookie, which lasts twelve hours', async () => {
  const response = await fetch(`${gateway.url}/dashboard/rpc/tollgate.v1.DashboardService/SignIn`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'connect-protocol-version': '1', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ credential: gateway.managementKey }),
  });
  expect(response.status).toBe(200);
  const text = await response.text();
  expect(text).not.toContain('ss-tg-');
  expect(text).not.toContain(gateway.managementKey);
  const cookie = response.headers.get('set-cookie') ?? '';
  expect(cookie).toMatch(
    /^tollgate_session=ss-tg-\w{43}; Max-Age=(43200|43199); Path=\/dashboard; HttpOnly; SameSite=Strict$/,
  );
  // Only the hash of the cookie is stored.
  const session = /ss-tg-\w+/.exec(cookie)?.[0] ?? '';
  expect(await isStored(gateway.home, session)).toBe(false);
});

test('pages of other origins can’t call, with a cookie or without, and get no answer to a preflight', async () => {
  const page = new PageCaller(gateway.url);
  await page.signIn(gateway.managementKey);
  const call = async (headers: Record<string, string>, method = 'POST') => {
    const response = await fetch(`${gateway.url}/dashboard/rpc/tollgate.v1.AccountService/ListKeys`, {
      method,
      headers: { 'content-type': 'application/json', 'connect-protocol-version': '1', cookie: page.cookie, ...headers },
      ...(method === 'POST' ? { body: '{}' } : {}),
    });
    return { status: response.status, allowed: response.headers.get('access-control-allow-origin') };
  };
  expect(await call({ 'sec-fetch-site': 'same-origin' })).toEqual({ status: 200, allowed: null });
  for (const site of ['same-site', 'cross-site', 'none'])
    expect((await call({ 'sec-fetch-site': site })).status).toBe(403);
  expect((await call({ origin: 'http://evil.example' })).status).toBe(403);
  expect((await call({ origin: 'null' })).status).toBe(403);
  expect((await call({ origin: gateway.url.replace(/\d+$/, '1') })).status).toBe(403);
  expect((await call({ origin: gateway.url })).status).toBe(200);
  expect((await call({ 'connect-protocol-version': '' })).status).toBe(400);
  expect((await call({}, 'GET')).status).toBe(405);
  const question = { origin: 'http://evil.example', 'access-control-request-method': 'POST' };
  expect(await call(question, 'OPTIONS')).toEqual({ status: 404, allowed: null });
});

test('a path that is not a method gets 404, on both listeners', async () => {
  for (const origin of [gateway.url, gateway.rpcUrl]) {
    for (const path of ['tollgate.v1.NoService/List', 'tollgate.v1.AccountingService/Hold', '']) {
      const response = await fetch(`${origin}/dashboard/rpc/${path}`, { method: 'POST', body: '{}' });
      expect([path, response.status]).toEqual([path, 404]);
      await response.text();
    }
  }
  const admin = await fetch(`${gateway.url}/dashboard/rpc/tollgate.v1.AdminService/ListAccounts`, {
    method: 'POST',
    body: '{}',
  });
  expect(admin.status).toBe(404);
});

test('the audit lists a person’s changes under the session and the person’s name', async () => {
  const page = new PageCaller(gateway.url);
  const { sessionId } = await page.signIn(gateway.managementKey);
  await page.client(AccountService).createKey({ settings: { label: 'audited' } });
  const { json } = await runInside(gateway, ['audit', '--account', '1', '--json']);
  const { data } = json as { data: { actor: { type: string; id: string }; action: string; address: string }[] };
  expect(data[0]).toMatchObject({
    actor: { type: 'session', id: `${sessionId} (management key 1)` },
    action: 'key.create',
  });
  expect(data[0]?.address).toMatch(/127\.0\.0\.1$/);
  expect(data.slice(1).map(({ action }) => action)).toContain('session.create');
  expect(JSON.stringify(data)).toContain('management key 1');
  expect(JSON.stringify(data)).not.toContain('ss-tg-');
});
