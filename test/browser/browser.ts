/** A real browser for tests of a running gateway. A test fails if its page violates the Content-Security-Policy, throws or logs an error. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect, inject } from 'vitest';
import type { Gateway } from '../gateway.ts';

/** The browser's options. Those of its package can't be used: with `--single-process` the browser ends with its first context, and with `--disable-web-security` tests of origins are worthless. */
const options = [
  '--no-sandbox',
  '--disable-dev-shm-usage',
  '--disable-gpu',
  '--hide-scrollbars',
  '--font-render-hinting=none',
];

/** A phone in portrait format. */
export const phone: BrowserContextOptions = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

/** A page and the faults recorded so far. */
export interface WatchedPage {
  readonly page: Page;
  /** The recorded errors; a test removes those that it expects. */
  readonly faults: string[];
}

/** Starts the browser. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: inject('chromiumPath'), args: options });
}

/** Opens an empty page in a new context, without cookies or stored data. */
export async function openPage(browser: Browser, more: BrowserContextOptions = {}): Promise<WatchedPage> {
  // Without this locale the browser reports one that Intl refuses.
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'Europe/Paris',
    reducedMotion: 'reduce',
    ...more,
  });
  await context.addInitScript(() => {
    window.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      console.error(`Content-Security-Policy: ${violatedDirective} ${blockedURI}`);
    });
  });
  return watch(await context.newPage());
}

/** Records the faults of a page. */
export function watch(page: Page): WatchedPage {
  const faults: string[] = [];
  page.on('pageerror', error => faults.push(`${error.name}: ${error.message}`));
  page.on('console', message => {
    if (message.type() === 'error') faults.push(`${message.text()} (${message.location().url})`);
  });
  return { page, faults };
}

/** Expects that the page had no faults. */
export function expectClean({ faults }: WatchedPage): void {
  expect(faults).toEqual([]);
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** Returns axe's serious findings on the current page, as "rule: element". */
export async function findBarriers(page: Page): Promise<string[]> {
  // The script is run through the debugger, to which the page's policy does not apply.
  await page.evaluate(`${axe};0`);
  const { violations } = await page.evaluate<AxeResult>(
    // Without what is not read here, the selectors above all, the checks take less than half the time.
    'axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], resultTypes: ["violations"], selectors: false })',
  );
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/** Opens a page that is signed in as the operator with a link. */
export async function openAsOperator(
  browser: Browser,
  gateway: Gateway,
  path = '/now',
  more: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const watched = await openPage(browser, more);
  const { url } = await gateway.admin.createSignInLink({});
  await watched.page.goto(url);
  await watched.page.getByRole('navigation', { name: 'Pages' }).waitFor();
  if (path !== '/now') await watched.page.goto(`${gateway.rpcUrl}/dashboard${path}`);
  return watched;
}

/** Calls a model over REST, and reads its answer. Returns the request's id. */
export async function askModel(gateway: Gateway, key: string, body: Record<string, unknown> = {}): Promise<string> {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/large', messages: [{ role: 'user', content: 'Say hello.' }], ...body }),
  });
  await answer.text();
  return answer.headers.get('x-request-id') ?? '';
}

/** Signs in on the page with a key. */
export async function signIn(page: Page, url: string, key: string, path = '/dashboard/'): Promise<void> {
  await page.goto(`${url}${path}`);
  await page.getByLabel('API key or management key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}
