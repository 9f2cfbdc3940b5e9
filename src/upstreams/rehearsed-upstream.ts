import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { ImageUpstream } from '../generation/images/image-upstream.ts';
import { type Upstream, type UpstreamCall, UpstreamFailure } from '../generation/upstream.ts';
import { AnswerDeadlines, type UpstreamTimeouts } from './answer-deadlines.ts';

/**
 * An upstream of this process under the time limits of one over HTTP, so that operators can rehearse them with the simulator. A limit that passes was ordered by
 * whoever steers it, and opens no circuit breaker.
 */
export function rehearsedUpstream(upstream: Upstream, timeouts: UpstreamTimeouts): Upstream {
  return { ...upstream, generate: call => answer(upstream, timeouts, call) };
}

/** The same for pictures, which come all at once: the time for the first event and the time for all of it count. */
export function rehearsedImages(images: ImageUpstream, timeouts: UpstreamTimeouts): ImageUpstream {
  return {
    async draw(call) {
      const late = new AbortController();
      const abort = (): void => late.abort(call.signal.reason);
      call.signal.addEventListener('abort', abort, { once: true });
      if (call.signal.aborted) abort();
      const deadlines = new AnswerDeadlines(timeouts, reason => late.abort(ordered(reason)));
      deadlines.sent();
      try {
        return await images.draw({ ...call, signal: late.signal });
      } finally {
        deadlines.stop();
        call.signal.removeEventListener('abort', abort);
      }
    },
  };
}

async function* answer(
  upstream: Upstream,
  timeouts: UpstreamTimeouts,
  call: UpstreamCall,
): AsyncGenerator<GenerationEvent[], void, undefined> {
  const late = new AbortController();
  const abort = (): void => late.abort(call.signal.reason);
  call.signal.addEventListener('abort', abort, { once: true });
  if (call.signal.aborted) abort();
  const deadlines = new AnswerDeadlines(timeouts, reason => late.abort(ordered(reason)), call.onOvertime);
  const answers = upstream.generate({ ...call, signal: late.signal })[Symbol.asyncIterator]();
  try {
    deadlines.sent();
    for (let first = true; ; first = false) {
      deadlines.waiting();
      const next = await answers.next();
      deadlines.arrived();
      if (next.done === true) return;
      if (first) deadlines.answering();
      yield next.value;
    }
  } finally {
    deadlines.stop();
    call.signal.removeEventListener('abort', abort);
    await answers.return?.();
  }
}

function ordered(reason: Error): Error {
  return reason instanceof UpstreamFailure
    ? new UpstreamFailure(reason.kind, { ...reason.facts, ordered: true })
    : reason;
}
