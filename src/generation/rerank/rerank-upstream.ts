import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import type { DirectAnswer, DirectCall } from '../direct-call.ts';

/** The score that an upstream gave to a document. */
export interface Ranked {
  /** The index of the document in the request, from 0. */
  readonly index: number;
  /** A higher score means more relevant. */
  readonly relevanceScore: number;
}

/** An upstream's answer. */
export interface Reranked extends DirectAnswer {
  /** The scores as the upstream returned them, neither checked nor sorted. */
  readonly results: readonly Ranked[];
  /** The number of searches that the upstream reports; undefined: it reports none. */
  readonly searchUnits: number | undefined;
}

/** Ranks documents: a provider over HTTP, or the built-in model. */
export interface RerankUpstream {
  /** Scores the documents of a request. Throws `UpstreamFailure`; if the signal is aborted, its reason. */
  rerank(call: DirectCall<RerankRequest>): Promise<Reranked>;
}
