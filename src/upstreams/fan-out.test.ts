import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { ItemStatus, Role } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { itemOf, messageContent, partOf, textContent } from '../codecs/content.ts';
import {
  completed,
  delta,
  finished,
  itemClosed,
  itemOpened,
  partClosed,
  partOpened,
  started,
  usageReported,
} from '../generation/events.ts';
import { foldEvents } from '../generation/fold.ts';
import { Hold } from '../generation/hold.ts';
import { type UpstreamCall, UpstreamFailure } from '../generation/upstream.ts';
import { fanOut } from './fan-out.ts';

const usage = (input: number, output: number) => ({
  $typeName: 'tollgate.v1.Usage' as const,
  inputTokens: input,
  outputTokens: output,
});

/** An answer in three batches. */
function answer(text: string, tokens: number, counted = true): GenerationEvent[][] {
  return [
    [
      started({ usage: { $typeName: 'tollgate.v1.Usage', inputTokens: 10 }, warnings: ['dropped=seed'] }),
      itemOpened(0, 0, itemOf(messageContent(Role.ASSISTANT, []), 0)),
      partOpened(0, [0, 0], partOf(textContent(''))),
    ],
    [delta(0, [0, 0], { kind: DeltaKind.TEXT, text })],
    [
      partClosed(0, [0, 0]),
      itemClosed(0, 0, ItemStatus.COMPLETED),
      finished(0, FinishReason.STOP),
      usageReported(usage(10, tokens)),
      completed(counted ? { usage: usage(10, tokens), usageSource: UsageSource.REPORTED } : {}),
    ],
  ];
}

const callOf = (candidates: number, signal = new AbortController().signal): UpstreamCall => ({
  hold: Hold.of({ kind: 'admitted', id: 1 }),
  request: create(GenerateRequestSchema, { candidates }),
  model: 'm',
  maxOutputTokens: 50,
  attempt: 1,
  signal,
});

async function collect(answers: AsyncIterable<GenerationEvent[]>): Promise<GenerationEvent[]> {
  const events: GenerationEvent[] = [];
  for await (const batch of answers) events.push(...batch);
  return events;
}

/** An upstream that gives each of its answers once. */
function giving(answers: readonly (() => AsyncIterable<GenerationEvent[]>)[]) {
  const calls: UpstreamCall[] = [];
  const one = (call: UpstreamCall): AsyncIterable<GenerationEvent[]> => {
    calls.push(call);
    return answers[calls.length - 1]?.() ?? expect.fail('one call too many');
  };
  return { calls, one };
}

async function* batches(list: readonly GenerationEvent[][]): AsyncGenerator<GenerationEvent[]> {
  for (const batch of list) {
    await Promise.resolve();
    yield batch;
  }
}

const textsOf = (events: readonly GenerationEvent[]): unknown[] =>
  foldEvents(events).choices.map(({ items }) => {
    const content = items[0]?.content;
    const part = content?.case === 'message' ? content.value.parts[0]?.content : undefined;
    return part?.case === 'text' ? part.value.text : undefined;
  });

describe('several answers', () => {
  test('are as many calls, each a choice; one start, one end, usage summed', async () => {
    const { calls, one } = giving([
      () => batches(answer('a', 5)),
      () => batches(answer('b', 7)),
      () => batches(answer('c', 9)),
    ]);
    const events = await collect(fanOut(callOf(3), one));
    expect(calls.map(({ request, maxOutputTokens }) => [request.candidates, maxOutputTokens])).toEqual([
      [undefined, 50],
      [undefined, 50],
      [undefined, 50],
    ]);
    expect(textsOf(events)).toEqual(['a', 'b', 'c']);
    const cases = events.map(({ event }) => event.case);
    expect(cases.filter(each => each === 'started' || each === 'completed')).toEqual(['started', 'completed']);
    const { started: start, completed: end } = foldEvents(events);
    expect(start?.warnings).toEqual(['dropped=seed']);
    expect(end).toMatchObject({ usage: { inputTokens: 30, outputTokens: 21 }, usageSource: UsageSource.REPORTED });
  });

  test('of which one reports no usage have none: the gateway counts', async () => {
    const { one } = giving([() => batches(answer('a', 5)), () => batches(answer('b', 7, false))]);
    const events = await collect(fanOut(callOf(2), one));
    expect(foldEvents(events).completed).toMatchObject({ usageSource: UsageSource.UNSPECIFIED });
    expect(foldEvents(events).completed?.usage).toBeUndefined();
  });

  test('are not begun before each of them has, so that a failure of one at once costs nothing', async () => {
    const ended: string[] = [];
    const { one } = giving([
      async function* first() {
        try {
          yield* batches(answer('a', 5));
        } finally {
          ended.push('a');
        }
      },
      async function* second() {
        await Promise.resolve();
        yield await Promise.reject<GenerationEvent[]>(new UpstreamFailure('status', { status: 503 }));
      },
    ]);
    const events: GenerationEvent[] = [];
    const read = async (): Promise<void> => {
      for await (const batch of fanOut(callOf(2), one)) events.push(...batch);
    };
    await expect(read()).rejects.toMatchObject({ kind: 'status' });
    expect(events).toEqual([]);
    expect(ended).toEqual(['a']);
  });

  /** Begins its answer, then says nothing until it is aborted. */
  const stalling = (aborted: string[], name: string) =>
    async function* stall({ signal }: UpstreamCall): AsyncGenerator<GenerationEvent[]> {
      yield* batches(answer(name, 1).slice(0, 2));
      await new Promise((_, reject) => {
        const end = (): void => {
          aborted.push(name);
          reject(signal.reason as Error);
        };
        if (signal.aborted) end();
        else signal.addEventListener('abort', end);
      });
    };

  test('end together when one of them fails', async () => {
    const aborted: string[] = [];
    const stall = stalling(aborted, 'a');
    async function* failing(): AsyncGenerator<GenerationEvent[]> {
      yield* batches(answer('b', 1).slice(0, 2));
      throw new UpstreamFailure('truncated');
    }
    let calls = 0;
    const one = (call: UpstreamCall): AsyncIterable<GenerationEvent[]> => {
      calls += 1;
      return calls === 1 ? stall(call) : failing();
    };
    await expect(collect(fanOut(callOf(2), one))).rejects.toMatchObject({ kind: 'truncated' });
    expect(aborted).toEqual(['a']);
  });

  test('end together when the caller goes away', async () => {
    const aborted: string[] = [];
    const caller = new AbortController();
    const reading = fanOut(callOf(2, caller.signal), stalling(aborted, 'a'));
    for (let step = 0; step < 3; step += 1) await reading.next();
    const waiting = reading.next();
    caller.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    expect(aborted).toEqual(['a', 'a']);
  });

  test('end together when the caller has enough', async () => {
    const aborted: string[] = [];
    const reading = fanOut(callOf(2), stalling(aborted, 'a'));
    for (let step = 0; step < 3; step += 1) await reading.next();
    await reading.return();
    expect(await reading.next()).toEqual({ done: true, value: undefined });
  });
});
