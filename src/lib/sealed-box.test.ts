import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SealedBox } from './sealed-box.ts';

const box = new SealedBox(['first secret']);
const bytes = fc.uint8Array({ maxLength: 200 });

test('a sealed value can be opened only with its context', () => {
  fc.assert(
    fc.property(bytes, fc.string(), fc.string(), (content, context, other) => {
      const sealed = box.seal(content, context);
      expect(sealed).toMatch(/^tg1\.[A-Za-z0-9_-]+$/);
      expect(Buffer.from(box.open(sealed, context) ?? 'nothing')).toEqual(Buffer.from(content));
      if (other !== context) expect(box.open(sealed, other)).toBeUndefined();
    }),
  );
});

test('the same content in the same context gives the same text, other content another text', () => {
  const content = new Uint8Array([1, 2, 3]);
  expect(box.seal(content, 'a')).toBe(box.seal(content, 'a'));
  expect(box.seal(content, 'b')).not.toBe(box.seal(content, 'a'));
  expect(box.seal(new Uint8Array([1, 2, 4]), 'a')).not.toBe(box.seal(content, 'a'));
});

test('a text in which a character was changed, removed or added does not open', () => {
  const sealed = box.seal(new TextEncoder().encode('reasoning of the model'), 'a');
  for (let at = 0; at < sealed.length; at++) {
    const other = sealed[at] === 'A' ? 'B' : 'A';
    expect(box.open(sealed.slice(0, at) + other + sealed.slice(at + 1), 'a')).toBeUndefined();
    expect(box.open(sealed.slice(0, at), 'a')).toBeUndefined();
  }
  expect(box.open(`${sealed}A`, 'a')).toBeUndefined();
  expect(box.open(`${sealed}=`, 'a')).toBeUndefined();
});

test('after a rotation old texts open, and new ones are sealed with the new secret', () => {
  const rotated = new SealedBox(['second secret', 'first secret']);
  const old = box.seal(new Uint8Array([7]), 'a');
  expect([...(rotated.open(old, 'a') ?? [])]).toEqual([7]);
  expect(box.open(rotated.seal(new Uint8Array([7]), 'a'), 'a')).toBeUndefined();
});

test('a box without a secret can’t be made', () => {
  expect(() => new SealedBox([])).toThrow('there is no server secret');
});
