/** The dashboard of a running gateway in a real browser: signing in, a newcomer's first minute, and what must not happen. */
import { brotliCompressSync } from 'node:zlib';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBalance, endGateway, type Gateway, makeKey, readRecord, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import {
  askModel as ask,
  expectClean,
  openAsOperator as openOperatorPage,
  openBrowser,
  openPage,
  phone,
  signIn,
  type WatchedPage,
} from './browser.ts';

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  // Slow enough that a browser on a busy machine shows an answer while it runs.
  const config = 'simulator: { tokens_per_second: 100 }\n';
  [gateway, browser] = await Promise.all([startGateway({ config }), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
});

const openAsOperator = (path?: string, more: BrowserContextOptions = {}): Promise<WatchedPage> =>
  openOperatorPage(browser, gateway, path, more);
const askModel = (key: string, body?: Record<string, unknown>): Promise<string> => ask(gateway, key, body);

const navigation = [
  'Now',
  'Activity',
  'Who pays next',
  'Keys',
  'Accounts and ledger',
  'Models and prices',
  'Configuration',
  'Playground',
];
/** The pages that only the operator sees. */
const operatorPages = ['Accounts and ledger', 'Configuration'];

describe('signing in', () => {
  test('a link works once, and its token is removed from the address', async () => {
    const { url } = await gateway.admin.createSignInLink({});
    const watched = await openPage(browser);
    const { page } = watched;
    await page.goto(url);
    const pages = page.getByRole('navigation', { name: 'Pages' });
    await pages.waitFor();
    expect(page.url()).toBe(`${gateway.rpcUrl}/dashboard/now`);
    expect(await pages.getByRole('link').allTextContents()).toEqual(navigation);
    expect(
      await page.evaluate(() => [
        document.cookie,
        localStorage.length - (localStorage.getItem('mantine-color-scheme-value') === null ? 0 : 1),
        sessionStorage.length,
      ]),
    ).toEqual(['', 0, 0]);
    expectClean(watched);

    const second = await openPage(browser);
    await second.page.goto(url);
    await second.page.getByRole('alert').getByText('The sign-in link was already used, or it has expired.').waitFor();
    expect(second.page.url()).not.toContain('token');
    await Promise.all([page.context().close(), second.page.context().close()]);
  });

  test('with a management key, only the pages of its account are visible; signing out ends the session', async () => {
    const watched = await openPage(browser);
    const { page } = watched;
    await signIn(page, gateway.url, gateway.managementKey);
    const pages = page.getByRole('navigation', { name: 'Pages' });
    expect(await pages.getByRole('link').allTextContents()).toEqual(
      navigation.filter(name => !operatorPages.includes(name)),
    );
    await page.getByText(`${gateway.rpcUrl}/dashboard/`).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key or management key').waitFor();
    await page.reload();
    await page.getByLabel('API key or management key').waitFor();
    expectClean(watched);
    await page.context().close();
  });

  test('the holder of an API key sees only that key’s requests', async () => {
    const { key } = await makeKey(gateway, { label: 'the holder’s' });
    const [own, other] = [await askModel(key), await askModel(gateway.apiKey)];
    const watched = await openPage(browser);
    const { page } = watched;
    await signIn(page, gateway.url, key, '/dashboard/activity');
    await page.getByRole('link', { name: own }).waitFor();
    expect(await page.getByRole('link', { name: other }).count()).toBe(0);
    expect(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Keys' }).count()).toBe(0);
    expectClean(watched);
    await page.goto(`${gateway.url}/dashboard/activity/${other}`);
    await page.getByRole('alert').waitFor();
    expect(await page.getByText('Exact sum').count()).toBe(0);
    await page.context().close();
  });

  test('a wrong key is refused with the gateway’s message', async () => {
    const { page } = await openPage(browser);
    await page.goto(`${gateway.url}/dashboard/`);
    await page.getByLabel('API key or management key').fill('sk-tg-wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    await page.context().close();
  });
});

test('in the first minute, a newcomer can send a request from the page, see its hold and receipt, make a key and see its first call, and a cent is not overspent', async () => {
  const watched = await openAsOperator('/playground');
  const { page } = watched;
  await page.getByRole('button', { name: 'Make a key' }).click();
  await expect.poll(() => page.getByLabel('API key that pays').inputValue()).toMatch(/^sk-tg-/);
  await page.getByLabel('Prompt').fill('Say hello.');
  // The answer takes a third of a second: the page is watched from before the click.
  const held = page.getByText('answering, money held').waitFor();
  await page.getByRole('button', { name: 'Send' }).click();
  await held;
  const receipt = page.getByRole('link', { name: 'its receipt' });
  await receipt.waitFor();
  await receipt.click();
  await page.getByText('10 × $1/M + 32 × $4/M = $0.000138').waitFor();
  const requestId = page.url().split('/').at(-1) ?? '';
  const record = await readRecord(gateway, requestId);
  expect(record.costNanoUsd).toBe(10n * 1_000n + 32n * 4_000n);

  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('first');
  await dialog.getByLabel('Own balance, in dollars').fill('1');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  const activation = page.getByRole('region', { name: 'New key' });
  await activation.getByText('for the key’s first call').waitFor();
  const key = (await activation.locator('pre').first().textContent())?.trim() ?? '';
  expect(await activation.locator('pre').nth(1).textContent()).toContain(key);
  await askModel(key);
  await activation.getByText('First call:').waitFor();
  expectClean(watched);
  await page.context().close();

  const cent = await makeKey(gateway, { balanceNanoUsd: 10_000_000n });
  await Promise.all(
    Array.from({ length: 50 }, () =>
      askModel(cent.key, {
        model: 'sim/large',
        max_tokens: 400,
        messages: [{ role: 'user', content: 'Write 300 words.' }],
      }),
    ),
  );
  const { key: after } = await gateway.admin.getApiKey({ apiKeyId: cent.id });
  expect(after?.balanceNanoUsd).toBeGreaterThanOrEqual(0n);
  expect(await readBalance(gateway)).toBeGreaterThan(0n);
});

test('the bodies of a request are shown side by side with their differences and can be sent again for free; its key can be paused and resumed', async () => {
  const { key, id } = await makeKey(gateway, { keepBodies: 'all' });
  const requestId = await askModel(key, { messages: [{ role: 'user', content: '<b>Pharos</b>' }] });
  const watched = await openAsOperator(`/activity/${requestId}`);
  const { page } = watched;
  const translation = page.getByRole('region', { name: 'Translation' });
  await translation.getByText('"content": "<b>Pharos</b>"').waitFor();
  await translation.getByText('A built-in model: nothing was sent.').waitFor();
  await translation.getByRole('button', { name: 'Send again' }).click();
  const again = translation.getByRole('region', { name: 'Answer of sim/small:free' });
  await again.getByText('Settled:').waitFor();
  await again.getByTitle('$0.000000000').waitFor();
  await translation.getByLabel('Model').selectOption('sim/large');
  expect(await translation.getByRole('button', { name: 'Send again' }).isDisabled()).toBe(true);
  await translation.getByRole('button', { name: 'Estimate' }).click();
  await translation.getByText(/About \d+ input tokens: \$0\.0000/).waitFor();
  expect(await translation.getByRole('button', { name: 'Send again' }).isEnabled()).toBe(true);
  await page.goto(`${gateway.rpcUrl}/dashboard/keys/${id}`);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('paused', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('works', { exact: true }).waitFor();
  await page.goto(`${gateway.rpcUrl}/dashboard/next?key=${id}&model=sim/large`);
  await page.getByText('would begin, holding').waitFor();
  expectClean(watched);
  await page.context().close();
});

test('filters are in the address and survive a reload, and sums have all digits', async () => {
  const { key } = await makeKey(gateway);
  const ids = [await askModel(key, { model: 'sim/small' }), await askModel(key, { model: 'sim/small' })];
  const records = await Promise.all(ids.map(id => readRecord(gateway, id)));
  const sum = records.reduce((total, { costNanoUsd }) => total + costNanoUsd, 0n);
  const watched = await openPage(browser);
  const { page } = watched;
  await signIn(page, gateway.url, key, '/dashboard/activity?model=sim/small');
  const digits = `$0.${sum.toString().padStart(9, '0')}`;
  await page.getByTitle(digits, { exact: true }).first().waitFor();
  await page.reload();
  await page.getByTitle(digits, { exact: true }).first().waitFor();
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('sim/small');
  const rows = page.getByRole('table', { name: 'Requests, newest first' }).getByRole('row');
  await expect.poll(() => rows.count()).toBe(3);
  await page.getByRole('button', { name: 'Remove the filter model' }).click();
  await page.waitForURL(url => !url.search.includes('model'));
  await page.getByRole('link', { name: ids[0] ?? '' }).click();
  await page.waitForURL(`${gateway.url}/dashboard/activity/${ids[0]}`);
  expectClean(watched);
  await page.context().close();
});

test('hostile labels are shown as text: no script runs, no link is forged, and the layout does not break', async () => {
  const hostile =
    '"><img src=x onerror=document.title="owned"><a href="javascript:alert(1)">click</a>' + 'W'.repeat(80);
  const { key } = await makeKey(gateway, { label: hostile });
  const requestId = await askModel(key, { user: '<script>document.title="owned"</script>' });
  await readRecord(gateway, requestId);
  const watched = await openAsOperator('/keys', phone);
  const { page } = watched;
  await page.getByText(hostile).first().waitFor();
  expect(await page.evaluate(() => window.innerWidth)).toBe(390);
  await page.goto(`${gateway.rpcUrl}/dashboard/activity/${requestId}`);
  await page.getByText('<script>document.title="owned"</script>').waitFor();
  expect(await page.title()).toBe('Request · Tollgate');
  expect(await page.locator('a[href^="javascript"]').count()).toBe(0);
  expectClean(watched);
  await page.context().close();
});

test('a second tab is signed in too, and signing out of one leads both to the sign-in', async () => {
  const { page } = await openPage(browser);
  await signIn(page, gateway.url, gateway.managementKey);
  const second = await page.context().newPage();
  await second.goto(`${gateway.url}/dashboard/keys`);
  await second.getByRole('heading', { name: 'Keys', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key or management key').waitFor();
  // The second tab needs no click, because its stream ends with the session.
  await second.getByLabel('API key or management key').waitFor();
  await page.context().close();
});

test('a running request appears with a hold that grows, then settles into the table below', async () => {
  const watched = await openAsOperator();
  const { page } = watched;
  await page.getByText('No request runs now.').waitFor();
  const requested = askModel(gateway.apiKey, {
    model: 'sim/writer',
    stream: true,
    max_tokens: 3_000,
    messages: [{ role: 'user', content: 'Write 1500 words.' }],
  });
  const running = page.getByRole('table', { name: 'Running requests, newest first' });
  await running.getByText('sim/writer').waitFor();
  const held = (): Promise<string> => page.locator('.tile-held dd').first().innerText();
  await expect.poll(held).toMatch(/^\$0\.00\d/);
  const output = (): Promise<number> =>
    running
      .getByText('tok')
      .first()
      .locator('..')
      .innerText()
      .then(text => Number.parseInt(text.replaceAll(',', ''), 10));
  const first = await output();
  await expect.poll(output).toBeGreaterThan(first);
  const requestId = await requested;
  await page.getByRole('table', { name: 'Requests, newest first' }).getByText(requestId).waitFor();
  await page.getByText('No request runs now.').waitFor();
  await page.getByText(/^entry \d+$/).waitFor();
  expectClean(watched);
  await page.context().close();
});

test('two tabs share one stream, and the second takes it over', async () => {
  const { page } = await openPage(browser);
  let streams = 0;
  page.context().on('request', request => {
    if (request.url().endsWith('/WatchNow')) streams += 1;
  });
  await signIn(page, gateway.url, gateway.managementKey);
  await page.getByText('live', { exact: true }).waitFor();
  const second = await page.context().newPage();
  await second.goto(`${gateway.url}/dashboard/now`);
  await second.getByText('live', { exact: true }).waitFor();
  expect(streams).toBe(1);
  await page.close();
  await expect.poll(() => streams).toBe(2);
  await second.getByText('live', { exact: true }).waitFor();
  await second.context().close();
});

test('a message reports a restart of the gateway, and afterwards the page continues by itself', async () => {
  const own = await startGateway();
  const { page } = await openPage(browser);
  await signIn(page, own.url, own.managementKey);
  await page.getByText('live', { exact: true }).waitFor();
  const { home, url, rpcUrl } = own;
  await own.stop();
  await page.getByText('The connection to the gateway was lost.', { exact: false }).first().waitFor();
  const environment = { TOLLGATE_PORT: new URL(url).port, TOLLGATE_RPC_PORT: new URL(rpcUrl).port };
  const again = await startGateway({ home, environment });
  await page.getByText('live', { exact: true }).waitFor();
  await askModel(gateway.apiKey);
  await page.getByRole('link', { name: 'Activity' }).click();
  await page.getByText('No request in this period').waitFor();
  await page.context().close();
  await endGateway(again);
});

test('the script that every page loads is below 250 kB compressed', () => {
  const folder = join(root, 'dist/dashboard');
  const index = readFileSync(join(folder, 'index.html'), 'utf8');
  const initial = [...index.matchAll(/(?:src|href)="\.\/(assets\/[^"]+\.js)"/g)].map(([, path = '']) => path);
  const sizes = initial.map(path => brotliCompressSync(readFileSync(join(folder, path))).length);
  expect(initial.length).toBeGreaterThan(0);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(250_000);
  expect(readdirSync(folder)).toContain('licenses.md');
});
