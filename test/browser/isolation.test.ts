/** Every role opens every page, also at addresses with another account's ids: nothing of the other account is shown or received. */
import type { Browser, Response } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pages } from '../../src/dashboard/app/shell/pages.ts';
import { endGateway, type Gateway, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { openBrowser, openPage, signIn } from './browser.ts';

/** A word that is in every name of the other account. */
const canary = 'canary-7c1e';

let gateway: Gateway;
let browser: Browser;
/** The ids and the key of the other account. */
const other = { accountId: 0n, keyId: 0n, key: '', requestId: '', groupId: 0n };
let ownRequest = '';

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), openBrowser()]);
  const { admin } = gateway;
  const { account } = await admin.createAccount({ name: canary, balanceNanoUsd: 5_000_000_000n });
  const accountId = account?.accountId ?? 0n;
  const { group } = await admin.createAccountGroup({ accountId, settings: { name: canary } });
  const groupId = group?.groupId ?? 0n;
  const { key } = await admin.createApiKey({ accountId, settings: { label: canary, groupId, keepBodies: 'all' } });
  const [id, text] = [key?.apiKeyId ?? 0n, key?.key ?? ''];
  Object.assign(other, { accountId, groupId, keyId: id, key: text, requestId: await askModel(text) });
  const settings = { max: 1_000n };
  await admin.createAccountLimit({
    accountId,
    limit: { scope: 'key', scopeId: id, unit: 'requests', window: 'day', settings },
  });
  await admin.createAccountWebhook({ accountId, settings: { url: `https://${canary}.example/hook` } });
  ownRequest = await askModel(gateway.apiKey, 'mine');
  await readRecord(gateway, ownRequest);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
});

async function askModel(key: string, word = canary): Promise<string> {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/large', user: word, messages: [{ role: 'user', content: `Say ${word}.` }] }),
  });
  await answer.text();
  return answer.headers.get('x-request-id') ?? '';
}

/** Returns the addresses of every page, with and without the other account's ids. */
function listPaths(): string[] {
  const { accountId, keyId, groupId, requestId } = other;
  return [
    ...pages.flatMap(({ to }) => [to, `${to}?account=${accountId}`]),
    `/activity/${requestId}`,
    `/activity/${requestId}?account=${accountId}`,
    `/activity?key=${keyId}&period=30d`,
    `/activity?group=${groupId}`,
    `/activity?end_user=nobody&by=end_user`,
    `/keys/${keyId}`,
    `/keys/${keyId}?account=${accountId}`,
    `/next?key=${keyId}&model=sim/large`,
  ];
}

const readScopes = ['keys:read', 'account:read', 'account:activity', 'account:balance', 'limits:read', 'groups:read'];

/** Functions that make the credential of a role. */
const roles: Readonly<Record<string, () => Promise<string>>> = {
  'the owner': () => Promise.resolve(gateway.managementKey),
  'a viewer': async () =>
    (await gateway.admin.createManagementKey({ accountId: 1n, scopes: readScopes })).key?.key ?? '',
  'the holder of a key': async () => (await makeKey(gateway, { label: 'mine' })).key,
};

test.each(['the owner', 'a viewer', 'the holder of a key'])(
  '%s sees nothing of another account at any address, and no page of the operator',
  { timeout: 300_000 },
  async role => {
    const { page } = await openPage(browser);
    const calls: { readonly url: string; readonly status: number; readonly body: Promise<string> }[] = [];
    page.on('response', response => {
      const url = response.url();
      // The stream does not end, but what it brings is on the page.
      const body = url.endsWith('/WatchNow') ? Promise.resolve('') : readBody(response);
      if (url.includes('/dashboard/rpc/')) calls.push({ url, status: response.status(), body });
    });
    await signIn(page, gateway.url, (await roles[role]?.()) ?? '');
    const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
    expect(links).not.toContain('Configuration');
    expect(links).not.toContain('Accounts and ledger');
    for (const path of listPaths()) {
      // This request runs while the page is open, so that it could also come through the stream.
      const asked = askModel(other.key);
      await page.goto(`${gateway.url}/dashboard${path}`);
      await page.locator('main').waitFor();
      await page.waitForLoadState('load');
      await page.waitForFunction(() => document.querySelector('.skeleton') === null);
      await asked;
      const shown = await page.locator('body').innerText();
      // The address contains the other account's ids, so the page may show these ids, but nothing more.
      expect([path, shown.includes(canary)]).toEqual([path, false]);
    }
    expect(calls.length).toBeGreaterThan(listPaths().length);
    const bodies = await Promise.all(calls.map(async call => ({ ...call, body: await call.body })));
    expect(bodies.filter(({ body }) => body !== '').length).toBeGreaterThan(listPaths().length);
    expect(bodies.filter(({ body }) => body.includes(canary)).map(({ url }) => url)).toEqual([]);
    // The public listener has no AdminService, so no page may call it.
    const tried = bodies.filter(({ url }) => url.includes('AdminService'));
    expect(tried.filter(({ status }) => status !== 404)).toEqual([]);
    await page.context().close();
  },
);

/** Waits until a request of the other account has settled. */
async function readOther(requestId: string): Promise<void> {
  const find = async (): Promise<boolean> => {
    const found = await gateway.admin
      .getAccountActivity({ accountId: other.accountId, requestId })
      .catch(() => undefined);
    return found?.record !== undefined;
  };
  await expect.poll(find).toBe(true);
}

/** Returns the body of an answer; '' if the browser has dropped it because the page was left. */
async function readBody(response: Response): Promise<string> {
  return response.body().then(
    bytes => bytes.toString('latin1'),
    () => '',
  );
}

test('the operator sees the other account at the same addresses, so the tests above would find it', async () => {
  const { page } = await openPage(browser);
  const { url } = await gateway.admin.createSignInLink({});
  await page.goto(url);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  const newest = await askModel(other.key);
  await readOther(newest);
  for (const path of ['keys', 'activity', `keys/${other.keyId}`, `activity/${other.requestId}`, 'accounts']) {
    await page.goto(`${gateway.rpcUrl}/dashboard/${path}?account=${other.accountId}`);
    const marked = path === 'activity' ? newest : canary;
    await page.locator('main').getByText(marked).first().waitFor();
  }
  await page.context().close();
});
