import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { listCases, listFinishes, stop, textItem, readText, through } from './answers.fixtures.ts';
import { StopCutter } from './stop-cutter.ts';

const answer = (texts: readonly string[]) => [...textItem(texts), stop()];

describe('StopCutter', () => {
  test('the text ends before the stop sequence, in a valid order, and nothing follows', () => {
    const out: GenerationEvent[] = [];
    const cutter = new StopCutter(out, ['END']);
    for (const event of [...textItem(['one E', 'N', 'D two']), ...textItem(['three'], { item: 1 }), stop()])
      cutter.push(event);
    expect(readText(out)).toBe('one ');
    expect(listCases(out)).toEqual(['itemOpened', 'partOpened', 'delta', 'partClosed', 'itemClosed', 'finished']);
    expect(listFinishes(out)).toEqual([[FinishReason.STOP, 'END']]);
    expect(cutter.hasCut).toBe(true);
  });

  test('text that only begins like a stop sequence is shown in the end', () => {
    const out: GenerationEvent[] = [];
    const cutter = new StopCutter(out, ['END']);
    for (const event of answer(['the E', 'N'])) cutter.push(event);
    expect(readText(out)).toBe('the EN');
    expect(listFinishes(out)).toEqual([[FinishReason.STOP, undefined]]);
    expect(cutter.hasCut).toBe(false);
  });

  test('however a text is split into deltas, it ends before the sequence that is complete first, and no part of that sequence is shown', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '😀'), maxLength: 24 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '😀'), minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 4,
    });
    const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 30, maxLength: 30 });
    fc.assert(
      fc.property(letters, stops, sizes, (text, sequences, cuts) => {
        const out = through(next => new StopCutter(next, sequences), answer(cutAt(text, cuts)));
        expect(readText(out)).toBe(expectedText(text, sequences));
      }),
      { numRuns: 2000 },
    );
  });
});

function cutAt(text: string, sizes: readonly number[]): string[] {
  const parts: string[] = [];
  let at = 0;
  for (const size of sizes) {
    if (at < text.length) parts.push(text.slice(at, at + size));
    at += size;
  }
  return parts;
}

/** Computes the expected text from the definition: the shortest beginning of the text that ends with a sequence, without the longest sequence that it ends with. */
function expectedText(text: string, sequences: readonly string[]): string {
  for (let end = 1; end <= text.length; end += 1) {
    const seen = text.slice(0, end);
    const ending = sequences.filter(sequence => seen.endsWith(sequence)).map(sequence => sequence.length);
    if (ending.length > 0) return seen.slice(0, end - Math.max(...ending));
  }
  return text;
}
