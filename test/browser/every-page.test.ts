/** Every page in each colour scheme and on a phone, with long names and more rows than a screen has. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pages } from '../../src/dashboard/app/shell/pages.ts';
import { endGateway, type Gateway, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { askModel, expectClean, findBarriers, openAsOperator, openBrowser, phone } from './browser.ts';

/** A word that can't be broken, wider than a phone. */
const wide = 'W'.repeat(60);
const model = `acme/${wide}`;
const provider = `provider-${wide}`;
const rows = 30;

let upstream: Gateway;
let gateway: Gateway;
let browser: Browser;
/** The paths of the pages. */
let paths: readonly string[];

beforeAll(async () => {
  [upstream, browser] = await Promise.all([startGateway(), openBrowser()]);
  gateway = await startGateway({
    balance: '1000000000',
    config: `retries: 0
providers:
  ${provider}: { protocol: chat, base_url: "${upstream.url}/v1", api_key: ${upstream.apiKey} }
  dead-${wide}: { protocol: chat, base_url: "http://127.0.0.1:9/${wide}/v1", api_key: sk-dead }
models:
  - id: ${model}
    description: ${wide} ${wide}
    pricing: { input: 123456.789, output: 987654.321 }
    routes:
      - { provider: ${provider}, model: sim/large, priority: 1 }
      - { provider: dead-${wide}, model: large-${wide}, priority: 2 }
`,
  });
  const groupId = await addNames();
  paths = await addRequests(groupId);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
  await endGateway(upstream);
});

const times = <Value>(number: number, make: (n: number) => Promise<Value>): Promise<Value[]> =>
  Promise.all(Array.from({ length: number }, (_, n) => make(n)));
const tags = { team: wide, [`name-${'w'.repeat(27)}`]: wide };

/** Adds accounts, credits, webhooks, groups, limits and keys with long names. Returns the id of one of the groups. */
async function addNames(): Promise<bigint> {
  const { admin } = gateway;
  const accountId = 1n;
  await times(rows, n => admin.createAccount({ name: `${wide} ${n}`, balanceNanoUsd: 123_456_789_123_456_789n }));
  await times(rows, n =>
    admin.addCredit({ accountId, amountNanoUsd: 987_654_321n, note: `${wide} ${n}`, reference: `${wide}-${n}` }),
  );
  await times(3, n =>
    admin.createAccountWebhook({ accountId, settings: { url: `https://${'w'.repeat(60)}.example/${wide}/${n}` } }),
  );
  await times(3, () => admin.createManagementKey({ accountId, scopes: ['all'] }));
  const groups = await times(rows, n =>
    admin.createAccountGroup({ accountId, settings: { name: `${wide} ${n}`, balanceNanoUsd: 123_456_789_123_456n } }),
  );
  const groupId = groups[0]?.group?.groupId ?? 0n;
  const settings = { maxNanoUsd: 9_000_000_000_000_000_000n };
  for (const [scope, scopeId] of [['account', 1n] as const, ['group', groupId] as const]) {
    await admin.createAccountLimit({ accountId, limit: { scope, scopeId, unit: 'usd', window: 'month', settings } });
  }
  return groupId;
}

/** Adds keys with long names, and sends requests with long labels. Returns the paths of the pages. */
async function addRequests(groupId: bigint): Promise<string[]> {
  const keys = await times(rows, n =>
    makeKey(gateway, { label: `${wide} ${wide} ${n}`, groupId, tags: { tags }, keepBodies: 'all' }),
  );
  const [{ key, id }] = keys as [(typeof keys)[number]];
  const messages = [{ role: 'user', content: wide }];
  const sent = await times(2 * rows, () => askModel(gateway, key, { model, user: wide, messages, max_tokens: 1 }));
  const requestId = sent[0] ?? '';
  await readRecord(gateway, requestId);
  return [
    '/now',
    `/activity?model=${encodeURIComponent(model)}&end_user=${wide}&tag=team:${wide}&by=tag`,
    '/activity?by=model',
    `/activity/${requestId}`,
    `/next?key=${id}&model=${encodeURIComponent(model)}`,
    '/next',
    '/keys',
    '/keys/1',
    `/keys/${id}`,
    '/accounts',
    `/models?model=${encodeURIComponent(model)}`,
    '/models?model=sim/large',
    '/configuration',
    `/playground?model=${encodeURIComponent(model)}&beside=sim/large`,
  ];
}

test('these are all pages of the navigation', () => {
  const opened = new Set(paths.map(path => path.replace(/\?.*/, '')));
  expect(pages.filter(({ to }) => !opened.has(to))).toEqual([]);
});

test.each([
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['on a phone', phone],
] as const)(
  'every page %s passes the accessibility checks, violates no policy and is not wider than the screen',
  // Fourteen pages take a minute on a busy machine.
  { timeout: 240_000 },
  async (_name, options) => {
    const watched = await openAsOperator(browser, gateway, '/now', options);
    const { page } = watched;
    for (const path of paths) {
      await page.goto(`${gateway.rpcUrl}/dashboard${path}`);
      await page.locator('main h1').waitFor();
      await page.waitForFunction(() => document.querySelector('.skeleton') === null);
      expect([path, ...(await findBarriers(page))]).toEqual([path]);
      const wider = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect([path, wider]).toEqual([path, 0]);
      expect([path, await page.evaluate(() => window.innerWidth)]).toEqual([path, page.viewportSize()?.width]);
    }
    expectClean(watched);
    await page.context().close();
  },
);
