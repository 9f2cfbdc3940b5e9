/**
 * Measures how fast the dashboard's pages appear, and whether running requests slow them: `node test/browser/paint.ts [RUNNING]` starts a gateway and a browser and prints times. Run it on a
 * quiet machine after `npm test -- test/browser` has installed the browser. It also prints the load of the machine, because the browser needs a whole core.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import unpacked from '@sparticuz/chromium';
import { chromium, type Page } from 'playwright-core';
import { buildDashboard } from '../../scripts/build-dashboard.ts';

const running = Number(process.argv[2] ?? 1_000);
const rounds = 20;
const watchedMs = 10_000;
const root = resolve(import.meta.dirname, '../..');
const paths = ['/now', '/activity', '/next', '/keys', '/accounts', '/models', '/configuration', '/playground'];

const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-paint-'));
const apiKey = `sk-tg-${'p'.repeat(43)}`;
const environment = {
  ...process.env,
  TOLLGATE_DATA_DIR: dataDir,
  TOLLGATE_PORT: '0',
  TOLLGATE_RPC_PORT: '0',
  TOLLGATE_BOOTSTRAP_API_KEY: apiKey,
  TOLLGATE_BOOTSTRAP_BALANCE: '1000',
};

await buildDashboard();
const gateway = spawn(process.execPath, ['bin/tollgate.js', 'serve'], { cwd: root, env: environment });
const [url, rpcUrl] = await new Promise<[string, string]>((found, failed) => {
  let printed = '';
  gateway.stderr.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
    const read = (name: string): string | undefined => new RegExp(`"${name}":"([^"]+)"`).exec(printed)?.[1];
    const [own, internal] = [read('public_url'), read('rpc_url')];
    if (own !== undefined && internal !== undefined) found([own, internal]);
  });
  gateway.stdout.resume();
  gateway.once('exit', code => failed(new Error(`the gateway ended with ${String(code)}: ${printed}`)));
});

function print(name: string, times: readonly number[]): void {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (part: number): string => (sorted[Math.ceil(sorted.length * part) - 1] ?? 0).toFixed(0).padStart(5);
  process.stdout.write(`${name.padEnd(44)} p50 ${at(0.5)} ms  p95 ${at(0.95)} ms\n`);
}

/** Opens a page, and returns when it first painted anything, when it painted text, and when its navigation was visible. */
async function load(page: Page, path: string): Promise<{ paint: number; words: number; ready: number }> {
  await page.goto(`${rpcUrl}/dashboard${path}`, { waitUntil: 'commit' });
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').first().waitFor();
  return page.evaluate(async () => {
    const paints = async (): Promise<PerformanceEntryList> => {
      for (;;) {
        const entries = performance.getEntriesByType('paint');
        if (entries.length >= 2) return entries;
        await new Promise(requestAnimationFrame);
      }
    };
    const ready = performance.now();
    const [paint, words] = (await paints()).map(({ startTime }) => startTime);
    return { paint: paint ?? 0, words: words ?? 0, ready };
  });
}

async function measureLoads(page: Page): Promise<void> {
  for (const path of paths) {
    const found = [];
    for (let round = 0; round < rounds; round++) found.push(await load(page, path));
    print(
      `${path}: first paint`,
      found.map(({ paint }) => paint),
    );
    print(
      `${path}: first words`,
      found.map(({ words }) => words),
    );
    print(
      `${path}: navigation there`,
      found.map(({ ready }) => ready),
    );
  }
}

/** Starts requests that run until they are stopped. Returns how to stop them. */
async function startRequests(): Promise<() => void> {
  const abort = new AbortController();
  const body = JSON.stringify({
    model: 'sim/large',
    stream: true,
    messages: [{ role: 'user', content: '!sim tokens=2000 tps=2' }],
  });
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const ask = async (): Promise<void> => {
    const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body, signal: abort.signal });
    if (!answer.ok) throw new Error(`a request was refused: ${await answer.text()}`);
    const reader = answer.body?.getReader();
    while ((await reader?.read())?.done === false);
  };
  for (let started = 0; started < running; started++) {
    ask().catch((error: unknown) => {
      if (!abort.signal.aborted) process.stderr.write(`${String(error)}\n`);
    });
    if (started % 50 === 49) await setTimeout(100);
  }
  return () => abort.abort();
}

/** Measures an open page: the time between frames, and how long its main thread was busy without a pause. */
async function measureFrames(page: Page, name: string): Promise<void> {
  const { frames, busy } = await page.evaluate(async ms => {
    const tasks: number[] = [];
    new PerformanceObserver(list => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({
      type: 'longtask',
    });
    const times: number[] = [];
    const end = performance.now() + ms;
    let last = performance.now();
    while (last < end) {
      await new Promise(requestAnimationFrame);
      times.push(performance.now() - last);
      last = performance.now();
    }
    return { frames: times, busy: tasks };
  }, watchedMs);
  print(`${name}: between frames`, frames);
  const [longest, total] = [Math.max(0, ...busy), busy.reduce((sum, ms) => sum + ms, 0)];
  process.stdout.write(
    `${`${name}: tasks over 50 ms`.padEnd(44)} ${busy.length}, longest ${longest.toFixed(0)} ms, together ${((100 * total) / watchedMs).toFixed(1)} % of the time\n`,
  );
}

try {
  const browser = await chromium.launch({
    executablePath: await unpacked.executablePath(),
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--hide-scrollbars'],
  });
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Paris', reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.goto(`${rpcUrl}/dashboard/`);
  const token = readFileSync(join(dataDir, 'operator.token'), 'utf8').trim();
  const link = await fetch(`${rpcUrl}/tollgate.v1.AdminService/CreateSignInLink`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'connect-protocol-version': '1' },
    body: '{}',
  });
  await page.goto(((await link.json()) as { url: string }).url);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  const load1 = (): string => (loadavg()[0] ?? 0).toFixed(1);
  process.stdout.write(`load ${load1()}\n`);
  await measureLoads(page);
  await load(page, '/now');
  await measureFrames(page, '/now, nothing running');
  const stop = await startRequests();
  await setTimeout(3_000);
  process.stdout.write(`load ${load1()}, ${running} requests running\n`);
  await load(page, '/now');
  await setTimeout(1_000);
  await measureFrames(page, `/now, ${running} running`);
  const loads = [];
  for (let round = 0; round < rounds; round++) loads.push(await load(page, '/now'));
  print(
    `/now, ${running} running: first words`,
    loads.map(({ words }) => words),
  );
  print(
    `/now, ${running} running: navigation there`,
    loads.map(({ ready }) => ready),
  );
  stop();
  await browser.close();
} finally {
  gateway.kill('SIGTERM');
  await setTimeout(1_000);
  rmSync(dataDir, { recursive: true, force: true });
}
