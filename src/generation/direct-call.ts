import type { Hold } from './hold.ts';
import type { AttemptWatch } from './upstream.ts';

/** One attempt of a request whose answer is not streamed: vectors, an order of documents. */
export interface DirectCall<Request> {
  /** Nothing goes upstream without a hold. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. */
  readonly request: Request;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when the answer is no longer wanted: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Absent: not traced. */
  readonly watch?: AttemptWatch | undefined;
}

/** What every such answer reports about its input. */
export interface DirectAnswer {
  /** The upstream's count; undefined: it reports none. */
  readonly inputTokens: number | undefined;
  /** Members of the request that the upstream does not know and was not sent. */
  readonly dropped: readonly string[];
}
