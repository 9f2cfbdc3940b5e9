import { expect, test } from 'vitest';
import type { Credential } from '../ledger.ts';
import { KnownCredentials } from './known-credentials.ts';

const key: Credential = {
  kind: 'api_key',
  keyId: 1,
  accountId: 1,
  disabled: false,
  scopes: [],
  allowedModels: null,
  hasWindow: false,
  expiresAtMs: undefined,
};

function makeHash(number: number): Uint8Array {
  const hash = new Uint8Array(32);
  new DataView(hash.buffer).setUint32(28, number);
  return hash;
}

test('a credential is read once, and again only after a change', () => {
  let stored: Credential | undefined = key;
  let reads = 0;
  const known = new KnownCredentials(() => {
    reads += 1;
    return stored;
  });
  expect([known.find(makeHash(1)), known.find(makeHash(1)), reads]).toEqual([key, key, 1]);
  stored = { ...key, disabled: true };
  known.forget();
  expect(known.find(makeHash(1))).toEqual({ ...key, disabled: true });
  stored = undefined;
  known.forget();
  expect([known.find(makeHash(1)), reads]).toEqual([undefined, 3]);
});

test('a key that does not exist is looked up every time, so that a new key works at once', () => {
  const stored: Credential[] = [];
  const known = new KnownCredentials(() => stored[0]);
  expect(known.find(makeHash(1))).toBe(undefined);
  stored.push(key);
  expect(known.find(makeHash(1))).toBe(key);
});

test('hashes are compared by their bytes, even if one is a view of a larger buffer', () => {
  const reads: number[] = [];
  const known = new KnownCredentials(hash => {
    reads.push(hash[31] ?? 0);
    return { ...key, keyId: hash[31] ?? 0 };
  });
  const large = new Uint8Array(64);
  large[31] = 1;
  large[63] = 2;
  expect(known.find(large.subarray(0, 32))?.keyId).toBe(1);
  expect(known.find(large.subarray(32))?.keyId).toBe(2);
  expect(known.find(makeHash(2))?.keyId).toBe(2);
  expect(reads).toEqual([1, 2]);
});

test('more credentials than fit into the cache are still found', () => {
  let reads = 0;
  const known = new KnownCredentials(hash => {
    reads += 1;
    return { ...key, keyId: new DataView(hash.buffer).getUint32(28) };
  });
  for (let round = 0; round < 2; round += 1) {
    for (let number = 0; number < 10_001; number += 1) expect(known.find(makeHash(number))?.keyId).toBe(number);
  }
  expect(reads).toBeGreaterThan(10_001);
});
