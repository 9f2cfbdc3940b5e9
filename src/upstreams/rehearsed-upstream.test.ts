import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { started, usageReported } from '../generation/events.ts';
import { Hold } from '../generation/hold.ts';
import { type RunningAttempt, type Upstream, UpstreamFailure } from '../generation/upstream.ts';
import { systemRuntime as runtime } from '../lib/runtime.ts';
import { rehearsedUpstream } from './rehearsed-upstream.ts';

const timeouts = { connectMs: 1000, firstEventMs: 400, idleMs: 400, totalMs: 1_500 };

/** Returns an upstream that emits an event after each of the waits. `done` records how it was controlled. */
function makeUpstream(waitsMs: readonly number[], done: string[]): Upstream {
  return {
    generate: (_, receiver) => {
      let timer: NodeJS.Timeout | undefined;
      const say = (index: number): void => {
        if (index === waitsMs.length) {
          receiver.end();
          return;
        }
        timer = setTimeout(() => {
          receiver.events([
            index === 0
              ? started({})
              : usageReported({ $typeName: 'tollgate.v1.Usage', unpriced: [], inputTokens: index }),
          ]);
          say(index + 1);
        }, waitsMs[index]);
      };
      say(0);
      const cancel = (): void => {
        done.push('cancel');
        clearTimeout(timer);
      };
      return { cancel, pause: () => done.push('pause'), resume: () => done.push('resume') };
    },
  };
}

interface Rehearsed {
  readonly attempt: RunningAttempt;
  readonly events: GenerationEvent[];
  readonly done: string[];
  readonly ended: Promise<Error | undefined>;
}

function rehearse(waitsMs: readonly number[]): Rehearsed {
  const events: GenerationEvent[] = [];
  const done: string[] = [];
  const hold = Hold.of({ kind: 'admitted', id: 1 });
  const request = create(GenerateRequestSchema, {});
  const call = { hold, request, model: 'm', maxOutputTokens: undefined, attempt: 1, whole: false };
  const { promise: ended, resolve } = Promise.withResolvers<Error | undefined>();
  const attempt = rehearsedUpstream(makeUpstream(waitsMs, done), { timeouts, runtime }).generate(call, {
    events: batch => void events.push(...batch),
    end: resolve,
  });
  return { attempt, events, done, ended };
}

async function outcome(waitsMs: readonly number[]): Promise<unknown> {
  const { events, ended } = rehearse(waitsMs);
  const failure = await ended;
  return failure instanceof UpstreamFailure ? [failure.kind, failure.facts.requested] : (failure ?? events.length);
}

function sleep(ms: number): Promise<string> {
  return new Promise(resolve => {
    setTimeout(() => resolve('silent'), ms);
  });
}

describe('a rehearsed upstream', () => {
  test('that keeps the time limits is not disturbed', async () => {
    expect(await outcome([10, 10, 10])).toBe(3);
  });

  test.each([
    ['first_event_timeout', [5_000]],
    ['idle_timeout', [10, 5_000]],
    ['total_timeout', Array.from({ length: 100 }, () => 50)],
  ])('fails with %s, marked as requested', async (kind, waits) => {
    expect(await outcome(waits)).toEqual([kind, true]);
  });

  test('reports nothing more after the caller has cancelled', async () => {
    const { attempt, done, events, ended } = rehearse([50, 50, 5_000]);
    await sleep(20);
    attempt.cancel();
    expect(await Promise.race([ended, sleep(600)])).toBe('silent');
    expect([events, done]).toEqual([[], ['cancel']]);
  });

  test('may be silent longer during a pause, but not longer than the total limit', async () => {
    const { attempt, done, ended } = rehearse([10, 900, 5_000]);
    await sleep(50);
    attempt.pause();
    expect(await Promise.race([ended, sleep(800)])).toBe('silent');
    expect(await ended).toMatchObject({ kind: 'total_timeout' });
    expect(done).toEqual(['pause', 'cancel']);
  });
});
