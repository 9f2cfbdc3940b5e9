import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, GenerateRequestSchema, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { completed, delta, started } from '../events.ts';
import { loadTokenizer } from '../tokens.ts';
import { UpstreamFailure } from '../upstream.ts';
import { callItem, listFinishes, stop, textItem, readText } from './answers.fixtures.ts';
import { CallCheck, keepsStop } from './call-check.ts';
import { CallFilter, callRules } from './call-filter.ts';
import { Guard, type OutputLimit } from './guard.ts';
import { LastFinish } from './last-finish.ts';
import { LengthCutter } from './length-cutter.ts';
import { Serialiser } from './serialise.ts';
import { StopCutter } from './stop-cutter.ts';
import { Validator } from './validate.ts';

const request = (init: Parameters<typeof create<typeof GenerateRequestSchema>>[1] = {}): GenerateRequest =>
  create(GenerateRequestSchema, init);
const unlimited: OutputLimit = { limit: Infinity, tolerance: 1 };

describe('a plain answer', () => {
  test('passes unchanged, as the same objects', () => {
    const guard = new Guard(request(), unlimited);
    const answer = [started({}), ...textItem(['Hello', ', world']), stop(), completed({})];
    const shown = answer.flatMap(event => guard.push([event]));
    expect(shown).toHaveLength(answer.length);
    for (const [index, event] of answer.entries()) expect(shown[index]).toBe(event);
    guard.end();
    expect(guard.isDone).toBe(false);
  });

  test('is truncated if it stops before its end', () => {
    const guard = new Guard(request(), unlimited);
    guard.push([started({}), ...textItem(['Hello'])]);
    expect(() => guard.end()).toThrow(new UpstreamFailure('truncated'));
  });
});

test('a lowered limit includes the text that was already sent', async () => {
  const tokenizer = await loadTokenizer();
  const guard = new Guard(request(), unlimited);
  const words = 'The quick brown fox jumps over the lazy dog.';
  const answer = [started({}), ...textItem([words, ` ${words}`])];
  const shown = guard.push(answer.slice(0, 4));
  guard.lowerLimit(tokenizer.count(words) + 3);
  shown.push(...guard.push(answer.slice(4)));
  expect(readText(shown)).toBe(`${words} The quick brown`);
  expect(listFinishes(shown)).toEqual([[FinishReason.LENGTH, undefined]]);
  expect(guard.isDone).toBe(true);
});

/** A guard in which all steps always run, and which counts every text. */
class WholeChain {
  readonly #shown: GenerationEvent[] = [];
  readonly #candidates: number;
  readonly #length: LengthCutter;
  readonly #stop: StopCutter;
  readonly #first: LastFinish;
  #finished = 0;

  constructor(requested: GenerateRequest, { limit, ...terms }: OutputLimit) {
    const rules = callRules(requested);
    this.#candidates = rules.candidates;
    this.#length = new LengthCutter(new CallCheck(this.#shown, keepsStop(requested)), limit, terms);
    this.#length.announce([delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'x'.repeat(100_000) })]);
    this.#stop = new StopCutter(this.#length, requested.stop.length === 0 ? ['\0'] : requested.stop);
    const callsMax = Math.min(rules.callsMax, 1000);
    const filter = new CallFilter(this.#stop, { ...rules, callsMax });
    this.#first = new LastFinish(new Serialiser(new Validator(filter, this.#candidates)));
  }

  push(events: readonly GenerationEvent[]): GenerationEvent[] {
    for (const event of events) this.#first.push(event);
    const shown = this.#shown.splice(0);
    this.#count(shown);
    if (this.#hasCut) this.#first.release(this.#candidates - this.#finished);
    this.#count(this.#shown);
    return [...shown, ...this.#shown.splice(0)];
  }

  #count(shown: readonly GenerationEvent[]): void {
    for (const { event } of shown) if (event.case === 'finished') this.#finished += 1;
  }

  get #hasCut(): boolean {
    return this.#stop.hasCut || this.#length.hasCut;
  }

  get isDone(): boolean {
    return this.#finished >= this.#candidates && this.#hasCut;
  }

  lowerLimit(limit: number): void {
    this.#length.lower(limit);
  }
}

const requests = fc
  .record({
    candidates: fc.integer({ min: 1, max: 2 }),
    stop: fc.subarray(['END', 'the lazy', 'ump', 'N']),
    parallelToolCalls: fc.constantFrom(undefined, true, false),
    maxToolCalls: fc.constantFrom(undefined, 0, 1, 2),
    mode: fc.constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.NAMED),
  })
  .map(({ candidates, stop: sequences, parallelToolCalls, maxToolCalls, mode }) =>
    request({
      candidates,
      stop: sequences,
      toolChoice: { mode, tools: mode === ToolChoiceMode.NAMED ? [{ name: 'a' }] : [] },
      ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
      ...(maxToolCalls === undefined ? {} : { maxToolCalls }),
    }),
  );

const texts = fc.array(
  fc.constantFrom(
    'The quick',
    ' brown',
    ' fox j',
    'umps',
    ' over',
    ' the',
    ' lazy',
    '.\n',
    'E',
    'ND',
    '1 2 3',
    '犬',
    ' 🦊',
  ),
  { minLength: 1, maxLength: 12 },
);
const items = fc.array(fc.oneof(texts, fc.constantFrom('a', 'b')), { maxLength: 4 });

/** Answers with interleaved items, split into batches of events, of which the last one may be missing. */
const answers = fc
  .record({
    choices: fc.array(items, { minLength: 1, maxLength: 3 }),
    picks: fc.array(fc.nat(), { minLength: 200, maxLength: 200 }),
    batchSizes: fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 200, maxLength: 200 }),
    breach: fc.option(fc.nat(), { freq: 8 }),
  })
  .map(({ choices, picks, batchSizes, breach }) => {
    const events = [started({}), ...interleaved(choices, picks), completed({})];
    if (breach !== null) events.splice(breach % events.length, 1);
    const batches: GenerationEvent[][] = [];
    for (const size of batchSizes) if (events.length > 0) batches.push(events.splice(0, size));
    return batches;
  });

function interleaved(choices: readonly (readonly (readonly string[] | string)[])[], picks: readonly number[]) {
  const queues = choices.flatMap((choice, number) =>
    choice.map((said, item) =>
      typeof said === 'string' ? callItem(said, item, number) : textItem(said, { choice: number, item }),
    ),
  );
  const events: GenerationEvent[] = [];
  for (const pick of picks) {
    const left = queues.filter(queue => queue.length > 0);
    events.push(...(left[pick % left.length]?.splice(0, 1) ?? []));
  }
  events.push(...queues.flat(), ...choices.map((_, number) => stop(FinishReason.TOOL_CALLS, number)));
  return events;
}

test('running only the steps that a request needs gives the same result as running all steps', async () => {
  await loadTokenizer();
  const limits = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.constantFrom(200, Infinity));
  const lowered = fc.option(fc.record({ at: fc.nat({ max: 10 }), limit: fc.integer({ min: 0, max: 20 }) }));
  fc.assert(
    fc.property(requests, answers, limits, lowered, (requested, batches, limit, lower) => {
      const guard = new Guard(requested, { limit, tolerance: 1.1 });
      const chain = new WholeChain(requested, { limit, tolerance: 1.1 });
      for (const [index, batch] of batches.entries()) {
        if (lower?.at === index) {
          guard.lowerLimit(lower.limit);
          chain.lowerLimit(lower.limit);
        }
        const wanted = outcome(() => chain.push(batch));
        expect(outcome(() => guard.push(batch))).toEqual(wanted);
        if (typeof wanted === 'string') return;
        expect(guard.isDone).toBe(chain.isDone);
      }
    }),
    { numRuns: 1000 },
  );
});

/** Returns the events that were passed on, or the error. */
function outcome(run: () => GenerationEvent[]): GenerationEvent[] | string {
  try {
    return run();
  } catch (thrown) {
    return String(thrown);
  }
}
