import type { EmbedRequest, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { DirectAnswer, DirectCall } from '../direct-call.ts';

/** An upstream's answer. */
export interface Embedded extends DirectAnswer {
  /** One for each input, in their order, as the upstream wrote them. */
  readonly vectors: readonly Vector[];
}

/** Something that embeds: a provider over HTTP, or the built-in model. */
export interface EmbeddingUpstream {
  /** Inputs may be token ids. */
  readonly takesTokenIds: boolean;
  /** Embeds all inputs of a request. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  embed(call: DirectCall<EmbedRequest>): Promise<Embedded>;
}
