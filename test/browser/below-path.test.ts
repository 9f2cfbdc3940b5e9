/** The dashboard behind a proxy that removes a path, in a real browser: it loads, signs in, navigates, and stays signed in after a reload. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PathProxy } from '../dashboard/path-proxy.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { expectClean, openBrowser, openPage, signIn } from './browser.ts';

const proxy = new PathProxy();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  await proxy.listen();
  [gateway, browser] = await Promise.all([startGateway({ config: `public_url: ${proxy.origin}/ai\n` }), openBrowser()]);
  proxy.target = gateway.url;
});
afterAll(async () => {
  await browser.close();
  proxy.close();
  await endGateway(gateway);
});

test('a person signs in below the path, opens a page, and is still signed in after a reload', async () => {
  const watched = await openPage(browser);
  const { page } = watched;
  await signIn(page, proxy.origin, gateway.managementKey, '/ai/dashboard/');
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Models' }).click();
  await page.getByText('sim/large').first().waitFor();
  expect(new URL(page.url()).pathname).toMatch(/^\/ai\/dashboard\/models/);
  await page.reload();
  await page.getByText('sim/large').first().waitFor();
  expectClean(watched);
});
