/** Each view of the dashboard does what it says: its bars filter, its numbers are those of the ledger, and what it copies runs. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { interfaces } from '../../src/dashboard/app/playground/code.ts';
import { databaseVariable } from '../gateway-database.ts';
import { endGateway, type Gateway, makeKey, readRecord, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import {
  askModel as ask,
  expectClean,
  openAsOperator as openOperatorPage,
  openBrowser,
  openPage,
  signIn,
  type WatchedPage,
} from './browser.ts';

let upstream: Gateway;
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  [upstream, browser] = await Promise.all([startGateway(), openBrowser()]);
  gateway = await startGateway({
    config: `retries: 0
providers:
  good: { protocol: chat, base_url: "${upstream.url}/v1", api_key: ${upstream.apiKey} }
  dead: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: sk-dead }
models:
  - id: acme/large
    capabilities: { vision: true, function_call: true }
    pricing: { input: 3.00, output: 15.00, caching: { read: 0.30 }, above: [{ input_tokens: 100000, input: 6.00, output: 22.50 }] }
    routes:
      - { provider: good, model: sim/large, priority: 1 }
      - { provider: dead, model: large-1, priority: 2, weight: 3 }
`,
  });
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
  await endGateway(upstream);
});

const openAsOperator = (path: string): Promise<WatchedPage> =>
  openOperatorPage(browser, gateway, path, { permissions: ['clipboard-read', 'clipboard-write'] });
const askModel = (key: string, body?: Record<string, unknown>): Promise<string> => ask(gateway, key, body);

/** Runs a copied text in a shell, where `tollgate` is the command line. Returns what it prints; throws if it fails. */
async function runInShell(text: string, more: Record<string, string> = {}): Promise<string> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    TOLLGATE_DATA_DIR: gateway.dataDir,
    TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port,
    TOLLGATE_OPERATOR_TOKEN: readFileSync(join(gateway.dataDir, 'operator.token'), 'utf8').trim(),
    TOLLGATE_MANAGEMENT_KEY: gateway.managementKey,
    ...databaseVariable(gateway.home),
    ...more,
  };
  const names = `curl() { command curl --silent --show-error --fail-with-body "$@"; }; tollgate() { "${process.execPath}" "${join(root, 'bin/tollgate.js')}" "$@"; }`;
  const { stdout } = await promisify(execFile)('bash', ['-c', `set -e; ${names}; ${text}`], { env });
  return stdout;
}

/** Returns the texts of the menu "Copy as", by their names. */
async function readCopies(page: Page): Promise<Map<string, string>> {
  const copies = new Map<string, string>();
  const button = page.getByRole('button', { name: 'Copy as' });
  const items = page.getByRole('menuitem');
  await button.click();
  await items.first().waitFor();
  const names = await items.allTextContents();
  await page.keyboard.press('Escape');
  await items.first().waitFor({ state: 'hidden' });
  for (const name of names) {
    await button.click();
    await page.getByRole('menuitem', { name, exact: true }).click();
    await page.getByText(`Copied as ${name}`, { exact: true }).waitFor();
    copies.set(name, await page.evaluate(() => navigator.clipboard.readText()));
    await items.first().waitFor({ state: 'hidden' });
  }
  return copies;
}

describe('“Copy as” of each view runs', () => {
  test.each([
    ['/now', ['curl', 'CLI']],
    ['/activity?model=sim/large', ['curl: list', 'CLI: list', 'curl: sums', 'CLI: sums']],
    ['/activity/REQUEST', ['curl', 'CLI']],
    ['/next?model=sim/large', ['curl', 'CLI']],
    ['/keys', ['curl', 'CLI']],
    ['/keys/1', ['curl', 'CLI']],
    [
      '/accounts',
      ['accounts', 'entries', 'audit log', 'webhooks', 'ledger', 'sessions'].flatMap(of => [
        `curl: ${of}`,
        `CLI: ${of}`,
      ]),
    ],
    ['/models?model=acme/large', ['curl: models', 'CLI: models', 'curl: routes', 'CLI: routes']],
    [
      '/configuration',
      ['settings', 'reload', 'providers', 'disk and retention'].flatMap(of => [`curl: ${of}`, `CLI: ${of}`]),
    ],
  ])('%s', { timeout: 180_000 }, async (path, names) => {
    const requestId = await askModel(gateway.apiKey);
    await readRecord(gateway, requestId);
    const watched = await openAsOperator(path.replace('REQUEST', requestId));
    await watched.page.locator('main h1').waitFor();
    await watched.page.waitForFunction(() => document.querySelector('.skeleton') === null);
    const copies = await readCopies(watched.page);
    expect([...copies.keys()].toSorted()).toEqual(names.toSorted());
    const printed = await Promise.all([...copies.values()].map(text => runInShell(text)));
    expect(printed.filter(text => text.trim() === '')).toEqual([]);
    expectClean(watched);
    await watched.page.context().close();
  });
});

test('a click on a bar filters rows and totals by its hour, the address keeps it, and the file has the same rows', async () => {
  const { key, id } = await makeKey(gateway);
  const ids = [await askModel(key), await askModel(key, { model: 'sim/small' })];
  const records = await Promise.all(ids.map(each => readRecord(gateway, each)));
  const watched = await openAsOperator(`/activity?key=${id}`);
  const { page } = watched;
  const rows = page.getByRole('table', { name: 'Requests, newest first' }).getByRole('row');
  const spend = page.locator('.tile').filter({ hasText: 'Spend' }).locator('dd').first();
  await expect.poll(() => rows.count()).toBe(3);
  const bars = page.getByRole('region', { name: 'Chart' }).getByRole('group').getByRole('button');
  await expect.poll(() => bars.count()).toBe(24);
  await bars.nth(3).click();
  await page.getByText('No request in this period').waitFor();
  expect(await spend.innerText()).toBe('$0.000000');
  // The last bar, with the keyboard.
  await bars.nth(3).press('End');
  await page.keyboard.press('Enter');
  const hour = new Date(Number(records[0]?.createdAtMs)).toISOString().slice(0, 13);
  await page.waitForURL(url => url.searchParams.get('hour') === hour);
  await expect.poll(() => rows.count()).toBe(3);
  await page.reload();
  await expect.poll(() => rows.count()).toBe(3);
  const sum = records.reduce((total, { costNanoUsd }) => total + costNanoUsd, 0n);
  await spend.getByTitle(`$0.${sum.toString().padStart(9, '0')}`, { exact: true }).waitFor();
  await page.getByText('before: none').first().waitFor();

  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'CSV', exact: true }).click(),
  ]);
  const lines = readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  const [header = '', ...body] = lines.map(line => line.split(','));
  const costs = body.map(fields => Math.round(Number(fields[header.indexOf('cost_usd')]) * 1e9));
  expect(body.map(([requestId = '']) => requestId).toSorted()).toEqual(ids.toSorted());
  expect(costs.reduce((total, cost) => total + BigInt(cost), 0n)).toBe(sum);

  await page.getByRole('button', { name: 'Remove the filter hour' }).click();
  await page.waitForURL(url => !url.searchParams.has('hour'));
  expectClean(watched);
  await page.context().close();
});

test('a model’s page calculates a request exactly, and sends one token through each route', async () => {
  const watched = await openAsOperator('/models?model=acme/large');
  const { page } = watched;
  const model = page.getByRole('region', { name: 'Model acme/large' });
  await model.getByLabel('Input, $3/M').fill('1234');
  await model.getByLabel('Read from cache, $0.3/M').fill('7');
  await model.getByLabel('Output, $15/M').fill('89');
  // 1234 × 3 + 7 × 0.3 + 89 × 15 = 5039.1 millionths of a dollar.
  await model.getByText('1234 × $3/M + 7 × $0.3/M + 89 × $15/M = $0.0050391').waitFor();
  await model.getByLabel('Input, $3/M').fill('200000');
  await model.getByText('200000 × $6/M + 89 × $22.5/M = $1.2020025').waitFor();
  const route = (name: string) => model.getByRole('row').filter({ hasText: name });
  await route('good').getByRole('button', { name: 'Send one token' }).click();
  await route('good').getByText('Answered').waitFor();
  await route('dead').getByRole('button', { name: 'Send one token' }).click();
  await route('dead').getByText('ECONNREFUSED').waitFor();
  expect(await route('dead').getByRole('cell').allInnerTexts()).toEqual(expect.arrayContaining(['large-1', '2', '3']));
  const spent = await upstream.admin.listAccountActivity({ accountId: 1n, query: { limit: 1 } });
  expect(spent.records[0]?.usage?.outputTokens).toBeLessThanOrEqual(1);
  await page.goto(`${gateway.rpcUrl}/dashboard/models?model=sim/image`);
  const image = page.getByRole('region', { name: 'Model sim/image' });
  await image.getByLabel('Images, $0.02').fill('3');
  await image.getByText('3 × $0.02 = $0.060000').waitFor();
  expectClean(watched);
  await page.context().close();
});

/** A red pixel. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

describe.each(interfaces.map(({ name }) => name))('the playground speaks %s', name => {
  test('with a tool and an image, to two models side by side; “As code” is the same request', async () => {
    const { key } = await makeKey(gateway, { keepBodies: 'all' });
    const watched = await openAsOperator(
      `/playground?model=sim/large&beside=acme/large&interface=${encodeURIComponent(name)}`,
    );
    const { page } = watched;
    await page.getByLabel('API key that pays').fill(key);
    await page.getByLabel('Prompt').fill('What is the weather in Paris?');
    await page.getByText('Instructions, tools, image, limit').click();
    const tool = { name: 'weather', description: 'Now', parameters: { type: 'object', properties: {} } };
    await page.getByLabel('Tools, as JSON').fill(JSON.stringify(tool));
    await page
      .getByLabel('Image')
      .setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from(png, 'base64') });
    await page.getByRole('button', { name: 'Send' }).click();
    for (const model of ['sim/large', 'acme/large']) {
      const answer = page.getByRole('region', { name: `Answer of ${model}` });
      await answer.getByText('Settled:').waitFor();
      expect(await answer.getByRole('region').innerText()).toContain('weather');
    }
    const [requestId = ''] = await page
      .getByRole('region', { name: 'Answer of sim/large' })
      .getByRole('link')
      .evaluateAll(links => links.map(link => link.getAttribute('href')?.split('/').at(-1) ?? ''));
    const sent = await readRecord(gateway, requestId);

    await page.getByRole('button', { name: 'As code' }).click();
    const code = await page.getByLabel('the request as curl', { exact: true }).innerText();
    expect(code).not.toContain(key);
    const printed = await runInShell(code.replace('BASE64_OF_THE_IMAGE', png), { TOLLGATE_API_KEY: key });
    expect(printed).toContain('weather');
    const { records } = await gateway.admin.listAccountActivity({
      accountId: 1n,
      query: { limit: 1, apiKeyId: sent.apiKeyId, model: 'sim/large' },
    });
    expect(records[0]?.requestId).not.toBe(requestId);
    expect(records[0]?.usage?.inputTokens).toBe(sent.usage?.inputTokens);
    expectClean(watched);
    await page.context().close();
  });
});

test('an idle page calls nothing but its one stream, whoever looks at it', async () => {
  const { key } = await makeKey(gateway);
  const holder = await openPage(browser);
  await signIn(holder.page, gateway.url, key, '/dashboard/activity');
  const operator = await openAsOperator('/now');
  const calls: string[] = [];
  for (const { page } of [holder, operator]) {
    await page.getByText('live', { exact: true }).waitFor();
    await page.waitForFunction(() => document.querySelector('.skeleton') === null);
    // The first messages of the stream are followed by a last reload.
    await page.waitForTimeout(2_500);
    page.on('request', request => calls.push(request.url().split('/').at(-1) ?? ''));
  }
  // Longer than the time after which the stream says that it is still there, twice.
  await holder.page.waitForTimeout(12_000);
  expect(calls).toEqual([]);
  // The pages do listen: a request of the key is read by both.
  await askModel(key);
  await expect.poll(() => calls).toContain('ListActivity');
  await expect.poll(() => calls).toContain('ListAccountActivity');
  expect(calls).not.toContain('WatchNow');
  for (const watched of [holder, operator]) {
    expectClean(watched);
    await watched.page.context().close();
  }
});

test('a new management key can have every scope that the gateway knows, and only one with all of them is called “all”', async () => {
  const { key } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['all'] });
  const all = [...(key?.scopes ?? [])];
  const most = await gateway.admin.createManagementKey({ accountId: 1n, scopes: all.slice(1) });
  const watched = await openAsOperator('/keys');
  const { page } = watched;
  const rows = page.getByRole('region', { name: 'Management keys', exact: true }).getByRole('row');
  await rows
    .filter({ hasText: most.key?.key.slice(-4) ?? '' })
    .getByText(all.slice(1).join(', '))
    .waitFor();
  await page.getByRole('button', { name: 'New management key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('keys:read').waitFor();
  const offered = await dialog.locator('label').allInnerTexts();
  expect(offered.toSorted()).toEqual(all.toSorted());
  expectClean(watched);
  await page.context().close();
});

test('a key whose group pays says so, on its page and in the list', async () => {
  const { group } = await gateway.admin.createAccountGroup({
    accountId: 1n,
    settings: { name: 'payers', balanceNanoUsd: 1_000_000_000n },
  });
  const { id } = await makeKey(gateway, { groupId: group?.groupId ?? 0n });
  const watched = await openAsOperator(`/keys/${id}`);
  const { page } = watched;
  await page.getByText('the balance of group payers').waitFor();
  await page.goto(`${gateway.rpcUrl}/dashboard/next?key=${id}&model=sim/large`);
  await page.getByText('The balance of group').waitFor();
  expectClean(watched);
  await page.context().close();
});

test('what keys of their own balance hold is shown as held', async () => {
  const { key } = await makeKey(gateway, { balanceNanoUsd: 1_000_000_000n });
  const watched = await openAsOperator('/now');
  const { page } = watched;
  const asked = askModel(key, {
    model: 'sim/writer',
    max_tokens: 2_000,
    stream: true,
    messages: [{ role: 'user', content: 'Write 400 words.' }],
  });
  const held = page.locator('.tile-held');
  await held.getByText('$0.000000 of it from this balance').waitFor();
  expect(await held.locator('dd').first().innerText()).toMatch(/^\$0\.000[1-9]|^\$0\.00[1-9]/);
  await asked;
  expectClean(watched);
  await page.context().close();
});

test('the holder of an API key can copy only calls of its own key', async () => {
  const { key } = await makeKey(gateway);
  await readRecord(gateway, await askModel(key));
  const watched = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
  const { page } = watched;
  await signIn(page, gateway.url, key, '/dashboard/activity');
  await page.getByRole('table', { name: 'Requests, newest first' }).waitFor();
  const copies = await readCopies(page);
  expect([...copies.keys()].every(name => name.startsWith('curl'))).toBe(true);
  for (const text of copies.values()) await runInShell(text, { TOLLGATE_API_KEY: key });
  expectClean(watched);
  await page.context().close();
});
