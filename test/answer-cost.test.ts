/**
 * How many promises and bytes a whole answer takes: a change that makes every answer more expensive fails here. The upstream is a second process, so that its own work is not counted. The number of promises is always the same. The bytes depend on how much V8 has compiled: after 6,000 answers they were 93 kB on a quiet machine and 140 kB on a busy one.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Meter } from '../bench/load/meter.ts';
import { Started } from '../bench/process.ts';
import { chatRequest } from '../bench/load/connection.ts';
import { endGateway, type Gateway, root, startGateway } from './gateway.ts';

/** The expected number of promises per answer, on the main thread. Lower it with every improvement. */
const promisesExpected = 8;
const bytesExpected = 64_000;
/** By which share the numbers may be higher or lower. An improvement must be recorded here, or it can be lost unnoticed. */
const tolerance = 0.1;
/** How many answers come before the count, so that most functions are compiled. */
const warmUp = 20_000;
/** How many more, each time that the bytes are still too high. */
const moreWarmUp = 5_000;
const counted = 2000;

function isNear(found: number, expected: number): boolean {
  return Math.abs(found / expected - 1) <= tolerance;
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cost-'));
const meter = new Meter(folder);
const upstream = new Started({ args: [join(root, 'bench/servers/upstream.ts')] });
let gateway: Gateway;

beforeAll(async () => {
  const port = await upstream.printed(/^(\d+)\n/);
  gateway = await startGateway({
    config: `providers:
  bench: { protocol: chat, base_url: "http://127.0.0.1:${port}/v1", api_key: sk-bench }
models:
  - id: bench/short
    context_length: 131072
    pricing: { input: 0.5, output: 1.5 }
    routes: [{ provider: bench, model: bench-short }]
`,
    balance: '1000',
    environment: meter.environment,
  });
});

afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('a whole answer makes the expected number of promises and bytes', async () => {
  const request = chatRequest(
    { model: 'bench/short', messages: [{ role: 'user', content: 'Say something short about benches in parks.' }] },
    `authorization: Bearer ${gateway.apiKey}\r\n`,
  );
  const traffic = { port: Number(new URL(gateway.url).port), requests: [request] };
  let { promises, bytes } = await meter.measure(traffic, { warmUp, counted });
  // V8 compiles on a thread of its own, which a busy machine delays.
  for (let tries = 0; tries < 5 && bytes > bytesExpected * (1 + tolerance); tries += 1)
    ({ promises, bytes } = await meter.measure(traffic, { warmUp: moreWarmUp, counted }));
  expect({ promises, bytes }).toSatisfy(
    () => isNear(promises, promisesExpected) && isNear(bytes, bytesExpected),
    `about ${promisesExpected} promises and ${bytesExpected} bytes`,
  );
}, 400_000);
