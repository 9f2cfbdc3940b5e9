/** Images that take long to decode, from callers who may not or can't pay for that (docs/interfaces/images.md "Edits"). */
import { readFileSync } from 'node:fs';
import sharp from 'sharp';
import { afterAll, expect, test } from 'vitest';
import { newAccount, newKey } from '../e2e/account-client.ts';
import { post } from '../e2e/chat-client.ts';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { endGateway, heldBy, startGateway } from '../gateway.ts';
import { testPeak } from './peak-memory.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\ndaily_limit_unit: requests\n' });
afterAll(() => endGateway(gateway));

/** Interlaced, so that it can't be decoded row by row, and as large as allowed. */
const interlaced = await sharp({ create: { width: 4096, height: 4096, channels: 3, background: '#2040d0' } })
  .png({ progressive: true, compressionLevel: 1 })
  .toBuffer();
/** A small file whose header declares a size that would take 16 GB of memory. */
const huge = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#000' } })
  .png()
  .toBuffer();
huge.writeUInt32BE(65_535, 16);
huge.writeUInt32BE(65_535, 20);
const damaged = interlaced.subarray(0, interlaced.length / 2);

const editWith = (file: Buffer, more: object = {}) => ({
  prompt: 'x',
  size: '256x256',
  images: [file.toString('base64')],
  ...more,
});
const url = `data:image/png;base64,${interlaced.toString('base64')}`;
const content = [
  { type: 'text', text: 'x' },
  { type: 'image_url', image_url: { url } },
];
const chat = { model: 'sim/large', messages: [{ role: 'user', content }] };
const edits = '/v1/images/edits';
const requests: readonly (readonly [path: string, body: object])[] = [
  [edits, editWith(interlaced)],
  [edits, editWith(interlaced, { async: true })],
  [edits, editWith(damaged)],
  ['/v1/chat/completions', chat],
];

async function send(key: string, path: string, body: object, headers: Record<string, string> = {}) {
  const response = await post(gateway, path, body, { key, headers });
  const { error } = (await response.json()) as { error?: { code: string; param?: string } };
  return [response.status, error?.code, error?.param ?? undefined];
}

/** Returns whether the gateway has ever decoded an image: the first one loads the native decoder. */
function hasDecoded(): boolean {
  return /sharp-[\w-]+\.node|libvips/.test(readFileSync(`/proc/${gateway.pid}/maps`, 'utf8'));
}

async function makeCaller(dollars: number, settings: object = {}) {
  const { managementKey } = await newAccount(gateway, dollars);
  return newKey(gateway, settings, managementKey);
}

const insufficient = [429, 'insufficient_balance', undefined];
const limited = [429, 'rate_limit', undefined];

test('without money or over a limit, no image is decoded, whether the request waits for its body or not; nor is one of a declared size that is not allowed', async () => {
  const poor = await makeCaller(0);
  const limitedKey = await makeCaller(10, { daily_limit: 1 });
  const text = { model: 'sim/small', messages: [{ role: 'user', content: 'x' }] };
  expect(await send(limitedKey.key, '/v1/chat/completions', text)).toEqual([200, undefined, undefined]);
  for (const [index, [path, body]] of requests.entries()) {
    expect(await send(poor.key, path, body)).toEqual(insufficient);
    // A request with an `Idempotency-Key` is refused only after its body was read.
    for (const headers of [{}, { 'idempotency-key': `request ${index}` }])
      expect(await send(limitedKey.key, path, body, headers)).toEqual(limited);
  }
  expect(await send(gateway.apiKey, edits, editWith(huge))).toEqual([422, 'validation_error', 'images.0']);
  expect(hasDecoded()).toBe(false);
});

test('a damaged image of a caller who can pay is found by decoding it, and is free', async () => {
  const before = await gateway.account.getBalance({});
  for (const more of [{}, { async: true }]) {
    expect(await send(gateway.apiKey, edits, editWith(damaged, more))).toEqual([422, 'validation_error', 'images.0']);
  }
  expect(hasDecoded()).toBe(true);
  expect(await gateway.account.getBalance({})).toEqual(before);
  expect(await heldBy(gateway)).toBe(0n);
  expect((await gateway.account.listActivity({})).records).toEqual([]);
});

test('while others’ images are decoded, refusals do not wait for that; a revoked key’s images are not decoded further', async () => {
  const poor = await makeCaller(0);
  const rich = await makeCaller(10);
  const images = Array.from({ length: 16 }, () => interlaced.toString('base64'));
  let ended = 0;
  const decoding = Array.from({ length: 6 }, async () => {
    const outcome = await send(rich.key, edits, editWith(interlaced, { images }));
    ended += 1;
    return outcome;
  });
  // Their cost is held, so their images wait for one of the two decoders, or are being decoded.
  await expect.poll(() => heldBy(gateway)).toBe(6n * 30_000_000n);
  for (const [path, body] of requests) expect(await send(poor.key, path, body)).toEqual(insufficient);
  expect(ended).toBe(0);
  await gateway.admin.setApiKeyState({ apiKeyId: BigInt(rich.api_key_id), state: KeyState.REVOKED });
  for (const outcome of await Promise.all(decoding)) expect(outcome).toEqual([401, 'invalid_api_key', undefined]);
  expect(await heldBy(gateway)).toBe(0n);
});

testPeak(gateway);
