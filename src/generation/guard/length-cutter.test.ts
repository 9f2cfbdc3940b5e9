import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { defined } from '../../lib/defined.ts';
import { completed, delta } from '../events.ts';
import { loadTokenizer } from '../tokens.ts';
import { listCases, listFinishes, stop, textItem, readText } from './answers.fixtures.ts';
import { LengthCutter, type LimitTerms } from './length-cutter.ts';

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

  describe('an answer of an upstream with another tokenizer', () => {
    const limit = 60;
    const text = tokenizer.split(words).slice(0, 100);
    const usage = (outputTokens: number, reasoningTokens?: number) =>
      completed({
        usage: { $typeName: 'tollgate.v1.Usage', unpriced: [], outputTokens, ...defined({ reasoningTokens }) },
      });
    const push = (events: readonly GenerationEvent[], terms: LimitTerms, isStreamed: boolean): GenerationEvent[] => {
      const out: GenerationEvent[] = [];
      const cutter = new LengthCutter(out, limit, terms);
      for (const batch of isStreamed ? events.map(event => [event]) : [events]) {
        cutter.announce(batch);
        for (const event of batch) cutter.push(event);
      }
      return out;
    };
    const foreign = { tolerance: 1.15 };

    test.each([false, true])('is not cut if it kept the limit by its own count, streamed: %s', isStreamed => {
      const answer = [...textItem(text), stop(), usage(limit)];
      expect(push(answer, foreign, isStreamed)).toEqual(answer);
      const two = [...textItem(text), stop(), usage(2 * limit)];
      expect(push(two, { ...foreign, candidates: 2 }, isStreamed)).toEqual(two);
    });

    test.each([
      ['reports more', [...textItem(text), stop(), usage(limit + 1)]],
      ['reports nothing', [...textItem(text), stop(), completed({})]],
      ['goes on', textItem(tokenizer.split(words))],
    ])('is cut at the limit with the tolerance if it %s', (_, answer) => {
      const out = push(answer, foreign, true);
      expect(readText(out)).toBe(text.slice(0, limit * 1.15).join(''));
      expect(listFinishes(out)).toEqual([[FinishReason.LENGTH, undefined]]);
    });

    test.each([false, true])(
      'is measured without its reasoning if its limit is for visible tokens, streamed: %s',
      isStreamed => {
        const reasoning = [text.join(''), words].map(part =>
          delta(0, [0, 0], { kind: DeltaKind.REASONING, text: part }),
        );
        const short = [...reasoning, ...textItem(text.slice(0, 5)), stop(), usage(305, 300)];
        expect(push(short, { ...foreign, isVisible: true }, isStreamed)).toEqual(short);
        const long = [...reasoning, ...textItem(text), stop(), usage(400, 300)];
        const seen = readText(push(long, { ...foreign, isVisible: true }, isStreamed).slice(reasoning.length));
        expect(seen).toBe(text.slice(0, limit * 1.15).join(''));
      },
    );
  });
});
