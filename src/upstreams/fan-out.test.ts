import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { ItemStatus, Role } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { makeItem, messageContent, makePart, textContent } from '../codecs/content.ts';
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
import {
  type RunningAttempt,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../generation/upstream.ts';
import { type AttemptOne, FanOut } from './fan-out.ts';

const usage = (input: number, output: number) => ({
  $typeName: 'tollgate.v1.Usage' as const,
  unpriced: [],
  inputTokens: input,
  outputTokens: output,
});

/** Returns an answer, as three lists of events. */
function answer(text: string, tokens: number, counted = true): GenerationEvent[][] {
  return [
    [
      started({ usage: { $typeName: 'tollgate.v1.Usage', unpriced: [], inputTokens: 10 }, warnings: ['dropped=seed'] }),
      itemOpened(0, 0, makeItem(messageContent(Role.ASSISTANT, []), 0)),
      partOpened(0, [0, 0], makePart(textContent(''))),
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

const makeCall = (candidates: number): UpstreamCall => ({
  hold: Hold.of({ kind: 'admitted', id: 1 }),
  request: create(GenerateRequestSchema, { candidates }),
  model: 'm',
  maxOutputTokens: 50,
  attempt: 1,
  whole: false,
});

/** The output of a fan-out so far, and how it ended. */
interface Collected {
  readonly attempt: RunningAttempt;
  readonly events: GenerationEvent[];
  ended: boolean;
  failure: Error | undefined;
}

function collect(candidates: number, one: AttemptOne, onEvents: () => void = () => undefined): Collected {
  const events: GenerationEvent[] = [];
  const receiver: UpstreamReceiver = {
    events: batch => {
      expect(batch).not.toEqual([]);
      events.push(...batch);
      onEvents();
    },
    end: failure => Object.assign(collected, { ended: true, failure }),
  };
  const collected: Collected = {
    attempt: new FanOut(makeCall(candidates), receiver, one),
    events,
    ended: false,
    failure: undefined,
  };
  return collected;
}

/** Returns an upstream whose answers the test pushes, and a record of the calls that control each answer. */
function upstream() {
  const calls: { call: UpstreamCall; receiver: UpstreamReceiver; done: string[] }[] = [];
  const one: AttemptOne = (call, receiver) => {
    const done: string[] = [];
    calls.push({ call, receiver, done });
    return { cancel: () => done.push('cancel'), pause: () => done.push('pause'), resume: () => done.push('resume') };
  };
  const push = (choice: number, ...batches: GenerationEvent[][]): void => {
    for (const batch of batches) calls[choice]?.receiver.events(batch);
  };
  const end = (choice: number, failure?: Error): void => calls[choice]?.receiver.end(failure);
  return { calls, one, push, end };
}

const readTexts = (events: readonly GenerationEvent[]): unknown[] =>
  foldEvents(events).choices.map(({ items }) => {
    const content = items[0]?.content;
    const part = content?.case === 'message' ? content.value.parts[0]?.content : undefined;
    return part?.case === 'text' ? part.value.text : undefined;
  });

describe('several answers', () => {
  test('are separate calls, each of which is a choice of one answer with one start, one end and the sum of the usages', () => {
    const { calls, one, push, end } = upstream();
    const collected = collect(3, one);
    for (const step of [0, 1, 2]) {
      for (const [choice, text] of ['a', 'b', 'c'].entries()) {
        push(choice, ...answer(text, 5 + 2 * choice).slice(step, step + 1));
        if (step === 2) end(choice);
      }
    }
    const { events } = collected;
    expect([collected.ended, collected.failure]).toEqual([true, undefined]);
    expect(calls.map(({ call }) => [call.request.candidates, call.maxOutputTokens])).toEqual([
      [undefined, 50],
      [undefined, 50],
      [undefined, 50],
    ]);
    expect(readTexts(events)).toEqual(['a', 'b', 'c']);
    const cases = events.map(({ event }) => event.case);
    expect(cases.filter(each => each === 'started' || each === 'completed')).toEqual(['started', 'completed']);
    const { started: start, completed: last } = foldEvents(events);
    expect(start?.warnings).toEqual(['dropped=seed']);
    expect(last).toMatchObject({ usage: { inputTokens: 30, outputTokens: 21 }, usageSource: UsageSource.REPORTED });
  });

  test('have no usage if one of them reports none, so that the gateway counts', () => {
    const { one, push } = upstream();
    const { events } = collect(2, one);
    push(0, ...answer('a', 5));
    push(1, ...answer('b', 7, false));
    expect(foldEvents(events).completed).toMatchObject({ usageSource: UsageSource.UNSPECIFIED });
    expect(foldEvents(events).completed?.usage).toBeUndefined();
  });

  test('are not passed on before each of them has begun, so that if one fails immediately, nothing is lost', () => {
    const { calls, one, push, end } = upstream();
    const collected = collect(2, one);
    push(0, ...answer('a', 5));
    end(0);
    end(1, new UpstreamFailure('status', { status: 503 }));
    expect(collected.failure).toMatchObject({ kind: 'status' });
    expect(collected.events).toEqual([]);
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['cancel', 'cancel']);
  });

  test('wait until all have begun, and then continue together, in order', () => {
    const { calls, one, push } = upstream();
    const { events } = collect(2, one);
    push(1, ...answer('b', 1).slice(0, 2));
    expect([events, calls[1]?.done]).toEqual([[], ['pause', 'pause']]);
    push(0, ...answer('a', 1).slice(0, 1));
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['resume', 'resume']);
    expect(events.map(({ choice, event }) => [choice, event.case])).toEqual([
      [0, 'started'],
      [0, 'itemOpened'],
      [0, 'partOpened'],
      [0, 'usageReported'],
      [1, 'itemOpened'],
      [1, 'partOpened'],
      [1, 'delta'],
    ]);
  });

  test('pause together when the receiver pauses, even at its first events', () => {
    const { calls, one, push } = upstream();
    const { attempt } = collect(2, one, () => attempt.pause());
    attempt.pause();
    push(0, ...answer('a', 1).slice(0, 1));
    attempt.resume();
    expect(calls.map(({ done }) => done)).toEqual([['pause', 'pause'], ['pause']]);
    push(1, ...answer('b', 1).slice(0, 1));
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['pause', 'pause']);
    attempt.resume();
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['resume', 'resume']);
  });

  test('end together when one of them fails', () => {
    const { calls, one, push, end } = upstream();
    const collected = collect(2, one);
    push(0, ...answer('a', 1).slice(0, 2));
    push(1, ...answer('b', 1).slice(0, 2));
    end(1, new UpstreamFailure('truncated'));
    expect(collected.failure).toMatchObject({ kind: 'truncated' });
    expect(calls[0]?.done.at(-1)).toBe('cancel');
  });

  test('end together when the caller cancels', () => {
    const { calls, one, push } = upstream();
    const collected = collect(2, one);
    push(0, ...answer('a', 1).slice(0, 2));
    push(1, ...answer('b', 1).slice(0, 2));
    collected.attempt.cancel();
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['cancel', 'cancel']);
    expect(collected.ended).toBe(false);
  });

  test('end together if the caller cancels at the last of them; the end is then not reported', () => {
    const { calls, one, push, end } = upstream();
    const collected = collect(2, one, () => collected.attempt.cancel());
    push(0, ...answer('a', 1));
    end(0);
    push(1, ...answer('b', 1));
    end(1);
    expect(calls.map(({ done }) => done.at(-1))).toEqual(['cancel', 'cancel']);
    expect(collected.ended).toBe(false);
  });
});

test('each choice has a different seed, and the first one has the client’s', () => {
  const seeds: (bigint | undefined)[] = [];
  const requested = {
    ...makeCall(3),
    request: create(GenerateRequestSchema, { candidates: 3, sampling: { seed: 7n } }),
  };
  const attempt = { cancel: () => undefined, pause: () => undefined, resume: () => undefined };
  const running = new FanOut(requested, { events: () => undefined, end: () => undefined }, ({ request }) => {
    seeds.push(request.sampling?.seed);
    return attempt;
  });
  running.cancel();
  expect(seeds).toEqual([7n, 8n, 9n]);
});
