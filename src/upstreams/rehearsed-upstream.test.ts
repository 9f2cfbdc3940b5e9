import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { started, usageReported } from '../generation/events.ts';
import { Hold } from '../generation/hold.ts';
import { type Upstream, UpstreamFailure } from '../generation/upstream.ts';
import { rehearsedUpstream } from './rehearsed-upstream.ts';

const timeouts = { connectMs: 1000, firstEventMs: 400, idleMs: 400, totalMs: 1_500 };

function untilAborted(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    });
  });
}

/** Says something after each of the waits. */
function upstreamOf(waitsMs: readonly number[]): Upstream {
  return {
    async *generate({ signal }) {
      for (const [index, wait] of waitsMs.entries()) {
        await untilAborted(wait, signal);
        yield [index === 0 ? started({}) : usageReported({ $typeName: 'tollgate.v1.Usage', inputTokens: index })];
      }
    },
  };
}

async function outcome(waitsMs: readonly number[], signal = new AbortController().signal): Promise<unknown> {
  const events: GenerationEvent[] = [];
  const hold = Hold.of({ kind: 'admitted', id: 1 });
  const request = create(GenerateRequestSchema, {});
  const call = { hold, request, model: 'm', maxOutputTokens: undefined, attempt: 1, signal };
  try {
    for await (const batch of rehearsedUpstream(upstreamOf(waitsMs), timeouts).generate(call)) events.push(...batch);
    return events.length;
  } catch (thrown) {
    return thrown instanceof UpstreamFailure ? [thrown.kind, thrown.facts.ordered] : thrown;
  }
}

describe('a rehearsed upstream', () => {
  test('that keeps the limits is left alone', async () => {
    expect(await outcome([10, 10, 10])).toBe(3);
  });

  test.each([
    ['first_event_timeout', [5_000]],
    ['idle_timeout', [10, 5_000]],
    ['total_timeout', Array.from({ length: 100 }, () => 50)],
  ])('fails with %s, as ordered', async (kind, waits) => {
    expect(await outcome(waits)).toEqual([kind, true]);
  });

  test('ends with the caller’s reason when the caller goes', async () => {
    const caller = new AbortController();
    const reason = new Error('gone');
    setTimeout(() => caller.abort(reason), 20);
    expect(await outcome([50, 50, 50], caller.signal)).toBe(reason);
  });
});
