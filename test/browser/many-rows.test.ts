/** Pages with more rows than a screen or one answer of the gateway has, while requests begin and settle. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ActivityRecord } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, makeKey, type NewKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { askModel, expectClean, openAsOperator, openBrowser } from './browser.ts';

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  const config = 'simulator: { tokens_per_second: 0 }\n';
  [gateway, browser] = await Promise.all([startGateway({ config, balance: '50' }), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await endGateway(gateway);
});

/** The most requests that the page asks for at once. */
const pageRows = 200;

/** Sends requests, several at the same time, so that several are admitted in the same millisecond. */
async function askOften(key: string, times: number): Promise<void> {
  for (let left = times; left > 0; left -= 50) {
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => askModel(gateway, key, { max_tokens: 1 })));
  }
}

/** Begins a request that runs until it is ended, which settles it. */
async function begin(key: string): Promise<{ id: string; end: () => Promise<void> }> {
  const body = {
    model: 'sim/large',
    stream: true,
    messages: [{ role: 'user', content: '!sim tokens=9000 tps=5\nGo.' }],
  };
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const reader = answer.body?.getReader();
  await reader?.read();
  return { id: answer.headers.get('x-request-id') ?? '', end: async () => reader?.cancel() };
}

/** Returns a key's records, newest first, once there are `records`. */
async function readRecords({ id }: NewKey, records: number): Promise<ActivityRecord[]> {
  const query = { apiKeyId: id, limit: 1_000 };
  const read = async (): Promise<ActivityRecord[]> =>
    (await gateway.admin.listAccountActivity({ accountId: 1n, query })).records;
  await expect.poll(async () => (await read()).length).toBe(records);
  return read();
}

/** Returns the number of rows of the table of requests. */
async function countRows(page: Page): Promise<number> {
  const table = page.getByRole('table', { name: 'Requests, newest first' });
  return Number(await table.getAttribute('aria-rowcount')) - 1;
}

/** Scrolls through the table of requests. Returns the ids of all rows, from the top down. */
async function readRows(page: Page): Promise<string[]> {
  const texts = await page.getByRole('region', { name: 'Requests, newest first' }).evaluate(async box => {
    const rows = new Map<number, string>();
    for (let top = 0; top < box.scrollHeight; top += box.clientHeight) {
      box.scrollTo(0, top);
      // The rows for the new place are drawn with the next frames.
      for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
      for (const row of box.querySelectorAll('[aria-rowindex]')) {
        rows.set(Number(row.getAttribute('aria-rowindex')), row.querySelector('code')?.textContent ?? '');
      }
    }
    return [...rows].toSorted(([one], [other]) => one - other).map(([, text]) => text);
  });
  return texts;
}

const ids = (records: readonly ActivityRecord[]): string[] => records.map(({ requestId }) => requestId);

// A busy machine needs up to half a minute for each.
describe('older requests', { timeout: 120_000 }, () => {
  test('new requests and one that settles late neither hide nor double a row of the next page, which is full', async () => {
    const key = await makeKey(gateway);
    await askOften(key.key, 150);
    const older = await begin(key.key);
    await askOften(key.key, 200);
    const newer = await begin(key.key);
    await askOften(key.key, 100);
    const there = await readRecords(key, 450);
    const watched = await openAsOperator(browser, gateway, '/configuration');
    const { page } = watched;
    // Without the stream of the current state the page does not read its rows again when money moves.
    await page.route('**/WatchNow', () => undefined);
    await page.goto(`${gateway.rpcUrl}/dashboard/activity?key=${key.id}`);
    await expect.poll(() => countRows(page)).toBe(pageRows);
    // One settles into the rows that are shown, one into those that are not.
    await Promise.all([newer.end(), older.end(), askOften(key.key, 30)]);
    await readRecords(key, 482);
    await page.getByRole('button', { name: 'Show older requests' }).click();
    await expect.poll(() => countRows(page)).toBeGreaterThan(pageRows);
    expect(await countRows(page)).toBe(2 * pageRows);
    await askOften(key.key, 30);
    await page.getByRole('button', { name: 'Show older requests' }).click();
    await expect.poll(() => countRows(page)).toBe(451);
    const rows = await readRows(page);
    expect(rows.filter(id => id !== older.id)).toEqual(ids(there));
    expect(rows[300]).toBe(older.id);
    expectClean(watched);
    await page.context().close();
  });

  test('requests of the same millisecond at the end of a page are all shown', async () => {
    const key = await makeKey(gateway);
    await askOften(key.key, 450);
    const first = await readRecords(key, 450);
    const isShared = ({ createdAtMs }: ActivityRecord, index: number): boolean =>
      index < pageRows && createdAtMs === first[index + 1]?.createdAtMs;
    const place = first.findLastIndex(isShared);
    expect(place).toBeGreaterThanOrEqual(0);
    // Newer requests move the first of the two to the last place of the first page.
    const newer = pageRows - 1 - place;
    await askOften(key.key, newer);
    const there = await readRecords(key, 450 + newer);
    expect(there[pageRows - 1]?.createdAtMs).toBe(there[pageRows]?.createdAtMs);
    const watched = await openAsOperator(browser, gateway, `/activity?key=${key.id}`);
    const { page } = watched;
    await expect.poll(() => countRows(page)).toBe(pageRows);
    await page.getByRole('button', { name: 'Show older requests' }).click();
    await expect.poll(() => countRows(page)).toBeGreaterThan(pageRows);
    expect(await countRows(page)).toBe(2 * pageRows);
    expect(await readRows(page)).toEqual(ids(there).slice(0, 2 * pageRows));
    expectClean(watched);
    await page.context().close();
  });

  test('are shown although the page reads its rows again before they have come', async () => {
    const key = await makeKey(gateway);
    await askOften(key.key, 250);
    await readRecords(key, 250);
    const watched = await openAsOperator(browser, gateway, `/activity?key=${key.id}`);
    const { page } = watched;
    await page.getByText('live', { exact: true }).waitFor();
    await expect.poll(() => countRows(page)).toBe(pageRows);
    const again = Promise.withResolvers<undefined>();
    let calls = 0;
    // The first answer is held back until the page calls again.
    await page.route('**/ListAccountActivity', async route => {
      calls += 1;
      if (calls === 1) await again.promise;
      else again.resolve(undefined);
      // A call that the page has given up can't go on.
      await route.continue().catch(() => undefined);
    });
    await page.getByRole('button', { name: 'Show older requests' }).click();
    await expect.poll(() => calls).toBe(1);
    await askModel(gateway, key.key);
    await expect.poll(() => countRows(page)).toBe(251);
    expectClean(watched);
    await page.context().close();
  });
});

test(
  'with more running requests than a message lists, the page draws only the rows in view, follows them and can be used',
  { timeout: 120_000 },
  async () => {
    const { key } = await makeKey(gateway);
    const running = await Promise.all(Array.from({ length: 220 }, () => begin(key)));
    const watched = await openAsOperator(browser, gateway);
    const { page } = watched;
    await page.getByText('the newest 200 of 220').waitFor();
    const table = page.getByRole('table', { name: 'Running requests, newest first' });
    expect(await table.getAttribute('aria-rowcount')).toBe('201');
    const box = page.getByRole('region', { name: 'Running requests, newest first' });
    // Counts the rows after every change of the table while it is scrolled to its end and messages come.
    const rowsMax = box.evaluate(async element => {
      let most = 0;
      const count = (): void => {
        most = Math.max(most, element.querySelectorAll('[role="row"]').length);
      };
      const observer = new MutationObserver(count);
      observer.observe(element, { childList: true, subtree: true, characterData: true });
      count();
      for (let top = 0; top < element.scrollHeight; top += element.clientHeight) {
        element.scrollTo(0, top);
        for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
      }
      observer.disconnect();
      return most;
    });
    // Those in view, a dozen above and below, and the head.
    const seen = Math.ceil((await box.evaluate(({ clientHeight }) => clientHeight)) / 36);
    expect(await rowsMax).toBeLessThanOrEqual(seen + 2 * 12 + 2);
    // The last listed request is the 200th from the newest, and its row is kept up to date.
    const last = table.locator('[aria-rowindex="201"]');
    const first = await last.innerText();
    await expect.poll(() => last.innerText()).not.toBe(first);
    await page.getByRole('link', { name: 'Keys', exact: true }).click();
    await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Now', exact: true }).click();
    await page.getByText('the newest 200 of 220').waitFor();
    await Promise.all(running.map(({ end }) => end()));
    await page.getByText('No request runs now.').waitFor();
    expectClean(watched);
    await page.context().close();
  },
);
