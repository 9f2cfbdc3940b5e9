/**
 * Measures how much a batch delays other requests: the p99 of requests at a fixed rate, alternately with and without a running batch of 50,000 items.
 * `node bench/batch.ts [SECONDS]` prints both and their ratio; SECONDS is the length of each of the ten turns (default 6).
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatNumber, table } from './row.ts';
import { median, percentile } from './statistics.ts';

const turns = 5;
const perSecond = 40;
const items = 50_000;
const apiKey = `sk-tg-${randomBytes(22).toString('hex').slice(0, 43)}`;
const authorization = `Bearer ${apiKey}`;

const makeBody = (line: string): object => ({
  model: 'sim/small',
  messages: [{ role: 'user', content: `x\n!sim ${line}` }],
});

async function startGateway(dataDir: string): Promise<{ url: string; stop: () => Promise<unknown> }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../bin/tollgate.js'), 'serve'], {
    cwd: dataDir,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: dataDir,
      TOLLGATE_DATA_DIR: dataDir,
      TOLLGATE_PORT: '0',
      TOLLGATE_RPC_PORT: '0',
      TOLLGATE_BOOTSTRAP_API_KEY: apiKey,
      TOLLGATE_BOOTSTRAP_BALANCE: '1000',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = new Promise(done => {
    child.once('close', done);
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const stop = (): Promise<unknown> => (child.kill('SIGKILL'), ended);
  for (let tries = 0; tries < 3000; tries++) {
    const url = /^\s*public\s+(http:\S+)/m.exec(printed)?.[1];
    const ready = url === undefined ? undefined : await fetch(`${url}/readyz`).catch(() => undefined);
    await ready?.arrayBuffer();
    if (url !== undefined && ready?.status === 200) return { url, stop };
    await sleep(10);
  }
  await stop();
  throw new Error('the gateway did not start');
}

async function call<Body>(url: string, body: object | FormData | undefined): Promise<Body> {
  const isForm = body instanceof FormData;
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization, ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${text}`);
  return JSON.parse(text) as Body;
}

/** Sends requests at a fixed rate, whether or not earlier ones have ended. Returns how long each took, in ms. */
async function ask(url: string, seconds: number): Promise<number[]> {
  const took: Promise<number>[] = [];
  const began = performance.now();
  for (let n = 0; n < seconds * perSecond; n++) {
    await sleep(Math.max(0, began + (n * 1000) / perSecond - performance.now()));
    const sent = performance.now();
    took.push(call(`${url}/v1/chat/completions`, makeBody('tokens=20')).then(() => performance.now() - sent));
  }
  return Promise.all(took);
}

async function startBatch(url: string): Promise<string> {
  const line = (at: number): string =>
    `${JSON.stringify({ custom_id: `i${at}`, method: 'POST', url: '/v1/chat/completions', body: makeBody('tokens=20') })}\n`;
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([Array.from({ length: items }, (_, at) => line(at)).join('')]), 'requests.jsonl');
  const { id } = await call<{ id: string }>(`${url}/v1/files`, form);
  const body = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const made = await call<{ id: string }>(`${url}/v1/batches`, body);
  while ((await readBatch(url, made.id)).status === 'validating') await sleep(50);
  return made.id;
}

const readBatch = (url: string, id: string) =>
  call<{ status: string; request_counts: { completed: number } }>(`${url}/v1/batches/${id}`, undefined);

async function endBatch(url: string, id: string): Promise<number> {
  await call(`${url}/v1/batches/${id}/cancel`, {});
  for (;;) {
    const { status, request_counts: counts } = await readBatch(url, id);
    if (status === 'cancelled' || status === 'completed') return counts.completed;
    await sleep(50);
  }
}

const seconds = Number(process.argv[2] ?? 6);
const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-bench-batch-'));
const { url, stop } = await startGateway(dataDir);
try {
  await ask(url, seconds);
  const [alone, beside]: [number[], number[]] = [[], []];
  let done = 0;
  const p99 = (times: readonly number[]): number =>
    percentile(
      [...times].sort((a, b) => a - b),
      0.99,
    );
  for (let turn = 0; turn < turns; turn++) {
    alone.push(p99(await ask(url, seconds)));
    const id = await startBatch(url);
    beside.push(p99(await ask(url, seconds)));
    done += await endBatch(url, id);
  }
  const ratio = median(beside) / median(alone);
  const row = {
    what: 'p99 of requests while a batch runs, of that without it',
    measured: `${formatNumber(ratio)}: ${formatNumber(median(beside))} of ${formatNumber(median(alone))} ms; ${Math.round(done / (turns * seconds))} items/s beside them`,
    target: 'at most 1.2',
    reached: ratio <= 1.2,
  };
  process.stdout.write(`${table([{ ...row, load: loadavg()[0] ?? 0 }])}\n`);
} finally {
  await stop();
  rmSync(dataDir, { recursive: true, force: true });
}
