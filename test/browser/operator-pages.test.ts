/** The operator's pages in a real browser: the configuration, the check of the ledger, and plans. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway, isOnPostgres } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { expectClean, openAsOperator as openOperatorPage, openBrowser, type WatchedPage } from './browser.ts';

const secret = 'sk-canary-7f3a9c';
const config = `retries: 1
providers:
  acme: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: ${secret} }
`;
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway({ config, balance: '50' }), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
});

const openAsOperator = (path: string): Promise<WatchedPage> => openOperatorPage(browser, gateway, path);

test('the configuration in use is shown without secrets; a new one can be checked, compared and, once it is in the file, reloaded', async () => {
  const file = join(gateway.home.folder, 'gateway.yaml');
  const watched = await openAsOperator('/configuration');
  const { page } = watched;
  const inUse = page.getByRole('region', { name: 'In use' });
  await inUse.getByText(file, { exact: true }).waitFor();
  await inUse.getByLabel('Settings', { exact: true }).selectOption('providers (1)');
  await inUse.getByLabel('Settings of providers').filter({ hasText: '- "***"' }).waitFor();
  await inUse.getByLabel('Settings', { exact: true }).selectOption('general');
  await inUse.getByLabel('Settings of general').filter({ hasText: 'retries: 1' }).waitFor();

  const check = page.getByRole('region', { name: 'Check a new configuration' });
  const field = check.getByLabel('Text of the file');
  await field.fill('retries: 2\nretrys: 3\n');
  await check.getByRole('button', { name: 'Check and compare' }).click();
  await check.getByRole('alert').getByText('line 2: retrys is not a known key; did you mean retries?').waitFor();

  const next = config.replace('retries: 1', 'retries: 3\nmetrics: public').replace(secret, 'sk-another');
  await field.fill(next);
  await check.getByRole('button', { name: 'Check and compare' }).click();
  await check.getByText('3 settings would change. At the next start only: metrics.').waitFor();
  const rows = check.getByRole('region', { name: 'Table: Differences' }).getByRole('row');
  expect((await rows.allInnerTexts()).map(text => text.split(/\s*\t\s*/))).toEqual([
    ['Setting', 'In use', 'In this text'],
    ['metrics', '"internal"', '"public"'],
    ['retries', '1', '3'],
    ['providers.acme.api_key', '["***"]', '["***"] another secret'],
  ]);
  await inUse.getByText('nothing', { exact: true }).waitFor();

  writeFileSync(file, next);
  await page.getByRole('button', { name: 'Reload the file' }).click();
  await page.getByText('These keys have changed and wait for a restart: metrics.').waitFor();
  await inUse.getByText('restart needed').waitFor();
  await inUse.getByLabel('Settings of general').filter({ hasText: 'retries: 3' }).waitFor();
  expect(await page.content()).not.toContain('canary');
  await check.getByRole('button', { name: 'Check and compare' }).click();
  await check.getByText('Nothing would change.').waitFor();
  expectClean(watched);
  await page.context().close();
});

test('a wrong file is not reloaded, and the page says what is wrong with it', async () => {
  const file = join(gateway.home.folder, 'gateway.yaml');
  const watched = await openAsOperator('/configuration');
  const { page, faults } = watched;
  writeFileSync(file, 'strict: maybe\n');
  await page.getByRole('button', { name: 'Reload the file' }).click();
  await page.getByRole('alert').getByText('strict: is "maybe", must be true or false').waitFor();
  writeFileSync(file, config);
  await page.getByRole('button', { name: 'Reload the file' }).click();
  await page.getByText(`${file} is in use now.`).waitFor();
  // The browser logs the refused call.
  expect(faults.splice(0)).toEqual([expect.stringContaining('400')]);
  await page.context().close();
});

test('the page shows the storage and retention times that the gateway reports', async () => {
  const watched = await openAsOperator('/configuration');
  const { page } = watched;
  const storage = page.getByRole('region', { name: 'Disk and retention' });
  await storage
    .getByRole('table', { name: 'Sizes' })
    .getByRole('row', { name: isOnPostgres ? /^PostgreSQL database \d/ : /^Ledger \d/ })
    .waitFor();
  const kept = storage.getByRole('table', { name: 'Retention' });
  const { retention } = await gateway.admin.getStorage({});
  expect(await kept.getByRole('row').count()).toBe(retention.length + 1);
  const days = Number(retention.find(({ name }) => name === 'activity')?.lifetimeMs) / 86_400_000;
  await kept
    .getByRole('row', { name: `Settled requests ${days.toLocaleString('en-GB')} days retention.activity` })
    .waitFor();
  expectClean(watched);
  await page.context().close();
});

test('the ledger can be verified from the page', async () => {
  const watched = await openAsOperator('/accounts');
  const { page } = watched;
  await page.getByRole('button', { name: 'Verify the ledger' }).click();
  await page.getByRole('region', { name: 'Ledger', exact: true }).getByText('All invariants hold.').waitFor();
  expectClean(watched);
  await page.context().close();
});

test('a plan is started at its price, shown and cancelled', async () => {
  const watched = await openAsOperator('/accounts');
  const { page } = watched;
  const panel = page.getByRole('region', { name: 'Plan' });
  await panel.getByRole('button', { name: 'Start a plan' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Plan and period').selectOption('Core Pro, a month');
  await dialog.getByText('$34.99').waitFor();
  await dialog.getByRole('button', { name: 'Start plan' }).click();
  await panel.getByText('80,000,000 of 80,000,000').waitFor();
  expect((await gateway.admin.getAccount({ accountId: 1n })).account?.balanceNanoUsd).toBe(15_010_000_000n);
  await page.getByTitle('$15.010000000').first().waitFor();
  await panel.getByRole('button', { name: 'Cancel the plan' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel plan' }).click();
  await panel.getByText('Ends', { exact: true }).waitFor();
  expect((await gateway.admin.getSubscription({ accountId: 1n })).subscription?.cancelled).toBe(true);
  expect(await panel.getByRole('button').count()).toBe(0);
  expectClean(watched);
  await page.context().close();
});
