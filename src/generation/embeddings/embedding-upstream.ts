import type { EmbedRequest, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { DirectAnswer, DirectCall } from '../direct-call.ts';

/** An upstream's answer. */
export interface Embedded extends DirectAnswer {
  /** One vector for each input, in the order of the inputs, in the form in which the upstream sent it. */
  readonly vectors: readonly Vector[];
}

/** Makes embeddings: a provider over HTTP, or the built-in model. */
export interface EmbeddingUpstream {
  /** True if inputs may be token ids. */
  readonly takesTokenIds: boolean;
  /** Embeds all inputs of a request. Throws `UpstreamFailure`; if the signal is aborted, its reason. */
  embed(call: DirectCall<EmbedRequest>): Promise<Embedded>;
}
