/** Requests with large bodies that continue large contents, at the same time: their bodies have all memory, and each waits for more (docs/security.md "Stored contents"). */
import { once } from 'node:events';
import { type IncomingMessage, request as openRequest } from 'node:http';
import { afterAll, expect, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { HeldProvider } from './held-provider.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const mebibyte = 1024 ** 2;
/** As many bodies of the largest size as the gateway admits at a time. */
const count = 4;
const bytes = attackSize(60, 4) * mebibyte;
const bytesMax = attackSize(64, 5);
const provider = await HeldProvider.start();
afterAll(() => provider.end());
const gateway = await startGateway({
  balance: '1000000',
  config: `
retries: 0
limits: { body_bytes: ${bytesMax}MiB, body_memory: ${count * bytesMax}MiB, account_body_memory: ${2 * bytesMax}MiB, memory_wait: 10m }
overload: { loop_lag: 60s }
providers:
  eyes: { protocol: chat, base_url: "${provider.url}", api_key: x }
models:
  - { id: far/eyes, context_length: 100000000, capabilities: { vision: true }, pricing: { input: 0.001, output: 1 }, routes: [{ provider: eyes, model: m }] }
`,
  // The largest heap that we set: in the systemd unit and the image. Each worker would count the memory of its own requests.
  environment: { NODE_OPTIONS: '--max-old-space-size=1024', TOLLGATE_WORKERS: '1' },
});
afterAll(() => endGateway(gateway));

const url = `data:image/png;base64,${'A'.repeat(bytes / 4)}`;
const input = [{ role: 'user', content: Array.from({ length: 4 }, () => ({ type: 'input_image', image_url: url })) }];

function headersOf(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
}

/** Begins a request, and sends its body but for the last byte. */
function begin(
  key: string,
  body: object,
): { readonly answer: Promise<[IncomingMessage]>; readonly finish: () => void } {
  const json = JSON.stringify(body);
  const headers = { ...headersOf(key), 'content-length': json.length };
  const request = openRequest(`${gateway.url}/v1/responses`, { method: 'POST', headers, agent: false });
  request.write(json.slice(0, -1));
  return { answer: once(request, 'response') as Promise<[IncomingMessage]>, finish: () => request.end(json.slice(-1)) };
}

/** Returns how much memory of large contents is reserved. */
async function reserved(): Promise<number> {
  const metrics = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  return Number(/^tollgate_large_content_bytes (\d+)$/m.exec(metrics)?.[1]);
}

test('they are answered one after the other', async () => {
  const callers: { readonly key: string; readonly id: string }[] = [];
  for (let caller = 0; caller < count; caller += 1) {
    const key = await createAccount(gateway, '1000');
    const body = JSON.stringify({ model: 'far/eyes', input });
    const stored = await fetch(`${gateway.url}/v1/responses`, { method: 'POST', headers: headersOf(key), body });
    callers.push({ key, id: ((await stored.json()) as { id: string }).id });
  }
  const begun = callers.map(({ key, id }) =>
    begin(key, { model: 'far/eyes', input, previous_response_id: id, store: false }),
  );
  await expect.poll(reserved, { timeout: 60_000 }).toBeGreaterThan(count * bytes);
  for (const { finish } of begun) finish();
  const statuses = await Promise.all(
    begun.map(async ({ answer }) => {
      const [response] = await answer;
      response.resume();
      return response.statusCode;
    }),
  );
  expect(statuses).toEqual(callers.map(() => 200));
  await expect.poll(reserved).toBe(0);
}, 200_000);

testPeak(gateway);
