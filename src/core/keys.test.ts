import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GatewayError } from '../errors/gateway-error.ts';
import { isKeyText, keyMaterial, keyPrefixes, makeKey, maskKey, readCredential, secretsEqual } from './keys.ts';

test('a key is its prefix and 43 base62 characters, no two are equal, and the first character varies', () => {
  const texts = Array.from({ length: 500 }, () => makeKey('apiKey').text);
  for (const text of texts) expect(text).toMatch(/^sk-tg-[0-9A-Za-z]{43}$/);
  expect(new Set(texts).size).toBe(500);
  // 2^256 is 0.82 of 62^43, so a key can begin with any character but the last ones of the alphabet.
  expect(new Set(texts.map(text => text.charAt(6))).size).toBeGreaterThan(40);
  expect(makeKey('managementKey').text).toMatch(/^mk-tg-[0-9A-Za-z]{43}$/);
});

test('only the SHA-256 and the mask of a key are stored', () => {
  const { text, hash, masked } = keyMaterial('sk-tg-a1B2cccccccccccccccZ9y8');
  expect(Buffer.from(hash).toString('hex')).toBe(createHash('sha256').update(text).digest('hex'));
  expect(masked).toBe('sk-tg-a1B2…Z9y8');
  expect(maskKey(`mk-tg-${'0'.repeat(43)}`)).toBe('mk-tg-0000…0000');
});

test('only texts with a known prefix and a plausible length can be keys', () => {
  expect(isKeyText(`sk-tg-${'x'.repeat(18)}`)).toBe(true);
  for (const text of ['', 'sk-tg-', `sk-tg-${'x'.repeat(17)}`, `sk-xx-${'x'.repeat(43)}`, `sk-tg-${'x'.repeat(600)}`]) {
    expect([text.slice(0, 30), isKeyText(text)]).toEqual([text.slice(0, 30), false]);
  }
});

test('secrets are equal exactly when their texts are', () => {
  fc.assert(fc.property(fc.string(), fc.string(), (one, other) => secretsEqual(one, other) === (one === other)));
  expect(secretsEqual('same', 'same')).toBe(true);
});

const key = `${keyPrefixes.apiKey}${'a'.repeat(43)}`;

test('a credential is read from either header; the scheme may be in upper or lower case', () => {
  for (const headers of [
    { authorization: `Bearer ${key}` },
    { authorization: `bearer  ${key} ` },
    { 'x-api-key': key },
    { authorization: `BEARER ${key}`, 'x-api-key': key },
  ]) {
    expect(readCredential(new Headers(headers))).toBe(key);
  }
});

test('a missing, empty, malformed or contradictory credential is refused', () => {
  for (const headers of [
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: key },
    { authorization: `Basic ${key}` },
    { authorization: `Bearer ${key} more` },
    { 'x-api-key': '' },
    { authorization: `Bearer ${key}`, 'x-api-key': `${key}b` },
    { authorization: `Bearer ${key}`, 'x-api-key': '' },
    { authorization: `Basic ${key}`, 'x-api-key': key },
  ]) {
    const thrown = ((): unknown => {
      try {
        return readCredential(new Headers(headers));
      } catch (error) {
        return error;
      }
    })();
    expect(thrown).toBeInstanceOf(GatewayError);
    expect((thrown as GatewayError).code).toBe('invalid_api_key');
  }
});
