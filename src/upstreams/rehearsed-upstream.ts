import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { EmbeddingUpstream } from '../generation/embeddings/embedding-upstream.ts';
import type { ImageUpstream } from '../generation/images/image-upstream.ts';
import type { RerankUpstream } from '../generation/rerank/rerank-upstream.ts';
import {
  type RunningAttempt,
  type Upstream,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import { Deadlines, type UpstreamTimeouts } from './deadlines.ts';

/** The time limits, and the clock and timers for them. */
export interface RehearsalLimits {
  readonly timeouts: UpstreamTimeouts;
  readonly runtime: Runtime;
}

/**
 * Returns an in-process upstream with the time limits of one over HTTP, so that operators can test timeouts with the simulator. If a limit passes, it was because a steering line asked for a delay, so the failure does not count for circuit breakers.
 */
export function rehearsedUpstream(upstream: Upstream, limits: RehearsalLimits): Upstream {
  return { ...upstream, generate: (call, receiver) => new Rehearsal(upstream, call, receiver, limits) };
}

/**
 * Does the same for images, which all come at the same time: the limits of the first event and of the total apply.
 */
export function rehearsedImages(images: ImageUpstream, limits: RehearsalLimits): ImageUpstream {
  return { draw: call => rehearse(call, limits, limited => images.draw(limited)) };
}

/** Does the same for embeddings. */
export function rehearsedEmbeddings(embeddings: EmbeddingUpstream, limits: RehearsalLimits): EmbeddingUpstream {
  const { takesTokenIds } = embeddings;
  return { takesTokenIds, embed: call => rehearse(call, limits, limited => embeddings.embed(limited)) };
}

/** Does the same for reranking. */
export function rehearsedReranker(reranker: RerankUpstream, limits: RehearsalLimits): RerankUpstream {
  return { rerank: call => rehearse(call, limits, limited => reranker.rerank(limited)) };
}

async function rehearse<Call extends { readonly signal: AbortSignal }, Answer>(
  call: Call,
  { timeouts, runtime }: RehearsalLimits,
  run: (call: Call) => Promise<Answer>,
): Promise<Answer> {
  const late = new AbortController();
  const deadlines = new Deadlines(timeouts, runtime, failure => late.abort(asRequested(failure)));
  deadlines.enter('sent');
  try {
    return await run({ ...call, signal: AbortSignal.any([call.signal, late.signal]) });
  } finally {
    deadlines.stop();
  }
}

class Rehearsal implements RunningAttempt, UpstreamReceiver {
  readonly #receiver: UpstreamReceiver;
  readonly #deadlines: Deadlines;
  readonly #attempt: RunningAttempt;

  constructor(upstream: Upstream, call: UpstreamCall, receiver: UpstreamReceiver, limits: RehearsalLimits) {
    this.#receiver = receiver;
    this.#deadlines = new Deadlines(limits.timeouts, limits.runtime, failure => this.#expire(failure));
    this.#deadlines.enter('sent');
    this.#attempt = upstream.generate(call, this);
  }

  events(events: GenerationEvent[]): void {
    this.#deadlines.enter('answering');
    this.#receiver.events(events);
  }

  end(failure?: Error): void {
    this.#deadlines.stop();
    this.#receiver.end(failure);
  }

  cancel(): void {
    this.#deadlines.stop();
    this.#attempt.cancel();
  }

  pause(): void {
    this.#deadlines.pause();
    this.#attempt.pause();
  }

  resume(): void {
    this.#deadlines.resume();
    this.#attempt.resume();
  }

  #expire(failure: UpstreamFailure): void {
    this.cancel();
    this.#receiver.end(asRequested(failure));
  }
}

function asRequested({ kind, facts }: UpstreamFailure): UpstreamFailure {
  return new UpstreamFailure(kind, { ...facts, requested: true });
}
