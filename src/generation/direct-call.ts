import type { Hold } from './hold.ts';
import type { AttemptWatch } from './upstream.ts';

/** One attempt of a request of a direct endpoint (embeddings, rerank), whose answer is not streamed. */
export interface DirectCall<Request> {
  /** The hold of the request: nothing may be sent upstream without one. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. */
  readonly request: Request;
  /** The upstream's name for the model. */
  readonly model: string;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when the answer is no longer wanted: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Observes the attempt for a trace; absent: it is not traced. */
  readonly watch?: AttemptWatch | undefined;
}

/** The facts that answers of all direct endpoints report. */
export interface DirectAnswer {
  /** The input tokens that the upstream reports; undefined: it reports none. */
  readonly inputTokens: number | undefined;
  /** Fields of the request that were not sent, because the upstream does not know them. */
  readonly dropped: readonly string[];
}
