import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { loadTokenizer } from '../tokens.ts';
import { listCases, listFinishes, stop, textItem, readText } from './answers.fixtures.ts';
import { LengthCutter } from './length-cutter.ts';

const tokenizer = await loadTokenizer();
const words =
  'The quick brown fox jumps over the lazy dog and then sleeps for a very long time under an old oak tree. '.repeat(20);

function limited(limit: number, events: readonly GenerationEvent[]): GenerationEvent[] {
  const out: GenerationEvent[] = [];
  const cutter = new LengthCutter(out, limit);
  cutter.announce(events);
  for (const event of events) cutter.push(event);
  return out;
}

describe('LengthCutter', () => {
  test('an answer of exactly its limit passes unchanged', () => {
    const answer = [...textItem(tokenizer.split(words)), stop()];
    expect(limited(tokenizer.count(words), answer)).toEqual(answer);
  });

  test('an answer above its limit ends with exactly that many tokens, in a valid order', () => {
    for (const limit of [1, 10, 100, 300]) {
      const out = limited(limit, [...textItem(tokenizer.split(words)), stop()]);
      expect(readText(out)).toBe(tokenizer.split(words).slice(0, limit).join(''));
      expect(listCases(out).slice(-3)).toEqual(['partClosed', 'itemClosed', 'finished']);
      expect(listFinishes(out)).toEqual([[FinishReason.LENGTH, undefined]]);
    }
  });

  test('however the text is split into deltas, the result has at most as many tokens as the limit, and at most one token fewer than would fit', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 5, maxLength: 60 });
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 80 }), (cuts, limit) => {
        const texts: string[] = [];
        let at = 0;
        for (const size of cuts) {
          texts.push(words.slice(at, at + size));
          at += size;
        }
        const whole = tokenizer.count(texts.join(''));
        const count = tokenizer.count(readText(limited(limit, [...textItem(texts), stop()])));
        expect(count).toBeLessThanOrEqual(limit);
        expect(count).toBeGreaterThanOrEqual(Math.min(whole, limit) - 1);
      }),
    );
  });

  test('a limit that is lowered during the answer applies from then on', () => {
    const out: GenerationEvent[] = [];
    const cutter = new LengthCutter(out, Infinity);
    const first = words.slice(0, 400);
    const second = words.slice(400);
    const events = [...textItem([first, second]), stop()];
    cutter.announce(events);
    for (const event of events.slice(0, 3)) cutter.push(event);
    cutter.lower(tokenizer.count(first) + 5);
    for (const event of events.slice(3)) cutter.push(event);
    expect(tokenizer.count(readText(out))).toBeLessThanOrEqual(tokenizer.count(first) + 5);
    expect(cutter.hasCut).toBe(true);
  });
});
