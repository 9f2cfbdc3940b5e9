import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import type { DirectAnswer, DirectCall } from '../direct-call.ts';

/** A document as an upstream has scored it. */
export interface Ranked {
  /** Its place among the documents of the request, from 0. */
  readonly index: number;
  /** The higher, the more relevant. */
  readonly relevanceScore: number;
}

/** An upstream's answer. */
export interface Reranked extends DirectAnswer {
  /** As the upstream returned them, neither checked nor sorted. */
  readonly results: readonly Ranked[];
  /** Searches as reported; undefined: the upstream reports none. */
  readonly searchUnits: number | undefined;
}

/** Something that orders documents: a provider over HTTP, or the built-in model. */
export interface RerankUpstream {
  /** Scores the documents of a request. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  rerank(call: DirectCall<RerankRequest>): Promise<Reranked>;
}
