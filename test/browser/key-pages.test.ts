/** The actions on the page of a key, in a real browser. Their results are checked on the page and by using the key. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway, makeKey, readBalance } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { expectClean, openAsOperator, openBrowser, openPage, signIn, type WatchedPage } from './browser.ts';

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
});

/** Opens the page of a key as the operator. */
async function openKey(id: bigint): Promise<WatchedPage> {
  const watched = await openAsOperator(browser, gateway, `/keys/${id}`);
  await watched.page.getByRole('button', { name: 'Rotate' }).waitFor();
  return watched;
}

/** Returns the status of a request with a key. */
async function tryKey(key: string): Promise<number> {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: 'Say hello.' }] }),
  });
  await answer.text();
  return answer.status;
}

/** Formats a time for a date field of a browser in Paris. */
function toFieldText(ms: number): string {
  const parts = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Paris', dateStyle: 'short', timeStyle: 'medium' });
  return parts.format(ms).replace(' ', 'T');
}

test('a key is rotated: its new secret is shown once, and the old one stays valid for the chosen time', async () => {
  const { key, id } = await makeKey(gateway);
  const watched = await openKey(id);
  const { page } = watched;
  const rotate = async (overlap: string): Promise<string> => {
    await page.getByRole('button', { name: 'Rotate' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('The old secret stays valid for').selectOption(overlap);
    await dialog.getByRole('button', { name: 'Rotate key' }).click();
    await dialog.waitFor({ state: 'detached' });
    return (await page.getByRole('region', { name: 'New key' }).locator('pre').first().textContent())?.trim() ?? '';
  };
  const second = await rotate('1 hour');
  expect(second).toMatch(/^sk-tg-/);
  expect([await tryKey(key), await tryKey(second)]).toEqual([200, 200]);
  await page.reload();
  await page.getByRole('button', { name: 'Rotate' }).waitFor();
  expect(await page.content()).not.toContain(second);
  const third = await rotate('no time: it stops working at once');
  expect([await tryKey(second), await tryKey(third)]).toEqual([401, 200]);
  expectClean(watched);
  await page.context().close();
});

test('a key expires at the time that was set on the page, and works again when the expiry is removed', async () => {
  const { key, id } = await makeKey(gateway);
  const watched = await openKey(id);
  const { page } = watched;
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Change' }).click();
  const expiresMs = Math.ceil(Date.now() / 1000) * 1000 + 4_000;
  await dialog.getByLabel('Expires').fill(toFieldText(expiresMs));
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  const { key: changed } = await gateway.admin.getApiKey({ apiKeyId: id });
  expect(changed?.expiresAtMs).toBe(BigInt(expiresMs));
  await expect.poll(() => tryKey(key), { timeout: 10_000 }).toBe(401);
  expect(Date.now()).toBeGreaterThanOrEqual(expiresMs);
  await page.reload();
  await page.getByText('expired', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Change' }).click();
  await dialog.getByLabel('It never expires').check();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('works', { exact: true }).waitFor();
  expect(await tryKey(key)).toBe(200);
  expectClean(watched);
  await page.context().close();
});

test('a key is disabled and enabled', async () => {
  const { key, id } = await makeKey(gateway);
  const watched = await openKey(id);
  const { page } = watched;
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByText('disabled', { exact: true }).waitFor();
  expect(await tryKey(key)).toBe(403);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('works', { exact: true }).waitFor();
  expect(await tryKey(key)).toBe(200);
  expectClean(watched);
  await page.context().close();
});

test('a key is moved into a group, whose limits then apply to it, and out of it', async () => {
  const { key, id } = await makeKey(gateway);
  const { group } = await gateway.admin.createAccountGroup({ accountId: 1n, settings: { name: 'closed' } });
  const scopeId = group?.groupId ?? 0n;
  const limit = { scope: 'group', scopeId, unit: 'requests', window: 'day', settings: { max: 0n } };
  await gateway.admin.createAccountLimit({ accountId: 1n, limit });
  const watched = await openKey(id);
  const { page } = watched;
  const move = async (name: string): Promise<void> => {
    await page.getByRole('button', { name: 'Change' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Group').selectOption(name);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
  };
  await move('closed');
  await page.getByRole('region', { name: 'Facts' }).getByText('closed', { exact: true }).waitFor();
  expect((await gateway.admin.getApiKey({ apiKeyId: id })).key?.groupId).toBe(scopeId);
  expect(await tryKey(key)).toBe(429);
  await move('None');
  await page.getByRole('region', { name: 'Facts' }).getByText('closed', { exact: true }).waitFor({ state: 'detached' });
  expect(await tryKey(key)).toBe(200);
  expectClean(watched);
  await page.context().close();
});

test('a key is deleted only after a confirmation, and its balance moves back', async () => {
  const before = await readBalance(gateway);
  const { key, id } = await makeKey(gateway, { balanceNanoUsd: 1_000_000_000n });
  expect(await readBalance(gateway)).toBe(before - 1_000_000_000n);
  const watched = await openKey(id);
  const { page } = watched;
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  expect(await tryKey(key)).toBe(200);
  const { key: used } = await gateway.admin.getApiKey({ apiKeyId: id });
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete key' }).click();
  await page.waitForURL(`${gateway.rpcUrl}/dashboard/keys`);
  await page.getByRole('table', { name: 'Keys' }).waitFor();
  await page.getByRole('link', { name: `Key ${id}`, exact: true }).waitFor({ state: 'detached' });
  expect(await tryKey(key)).toBe(401);
  expect(await readBalance(gateway)).toBe(before - 1_000_000_000n + (used?.balanceNanoUsd ?? 0n));
  expectClean(watched);
  await page.context().close();
});

test('the holder of a management key may rotate, change and delete keys, but not disable them', async () => {
  const { id } = await makeKey(gateway);
  const watched = await openPage(browser);
  const { page } = watched;
  await signIn(page, gateway.url, gateway.managementKey, `/dashboard/keys/${id}`);
  await page.getByRole('button', { name: 'Delete' }).waitFor();
  for (const name of ['Change', 'Rotate', 'Pause']) expect(await page.getByRole('button', { name }).count()).toBe(1);
  expect(await page.getByRole('button', { name: 'Disable' }).count()).toBe(0);
  expectClean(watched);
  await page.context().close();
});

test('several filters at once apply to the sums and to the rows', async () => {
  const [one, other] = [await makeKey(gateway), await makeKey(gateway)];
  const send = async (key: string, model: string): Promise<void> => {
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, user: 'ann', messages: [{ role: 'user', content: 'Say hello.' }] }),
    });
    await answer.text();
  };
  for (const key of [one.key, other.key]) for (const model of ['sim/small', 'sim/large']) await send(key, model);
  await send(one.key, 'sim/large');
  const watched = await openKey(one.id);
  const { page } = watched;
  await page.goto(`${gateway.rpcUrl}/dashboard/activity?model=sim/large&key=${one.id}&end_user=ann`);
  const rows = page.getByRole('table', { name: 'Requests, newest first' }).getByRole('row');
  await expect.poll(() => rows.count()).toBe(3);
  const requests = page.locator('.tile').filter({ hasText: 'Requests' }).locator('dd').first();
  expect(await requests.innerText()).toBe('2');
  await page.getByRole('button', { name: 'Remove the filter key' }).click();
  await expect.poll(() => requests.innerText()).toBe('3');
  await page.getByLabel('Group by').selectOption('Key');
  await page.getByLabel('Provider', { exact: true }).fill('nobody');
  await page.getByLabel('Provider', { exact: true }).press('Enter');
  await page.getByText('No request in this period').waitFor();
  await page.getByRole('button', { name: 'Remove the filter provider' }).click();
  await page
    .locator('.legend')
    .getByRole('button', { name: `${other.id}`, exact: true })
    .click();
  await expect.poll(() => requests.innerText()).toBe('1');
  expect(new URL(page.url()).searchParams.get('key')).toBe(`${other.id}`);
  expect(await page.getByLabel('Key', { exact: true }).inputValue()).toBe(`${other.id}`);
  await page.getByLabel('Key', { exact: true }).selectOption(`${one.id}`);
  await expect.poll(() => requests.innerText()).toBe('2');
  expectClean(watched);
  await page.context().close();
});
