import type { EmbedRequest, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { Hold } from '../hold.ts';
import type { AttemptWatch } from '../upstream.ts';

/** One attempt of an embedding at one upstream. */
export interface EmbeddingCall {
  /** Nothing goes upstream without a hold. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. */
  readonly request: EmbedRequest;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** Which attempt of this request it is, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when nobody wants the vectors any more: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Absent: nobody follows it. */
  readonly watch?: AttemptWatch | undefined;
}

/** What an upstream has answered. */
export interface Embedded {
  /** One for each input, in their order, as the upstream wrote them. */
  readonly vectors: readonly Vector[];
  /** As reported; undefined: it reports none. */
  readonly inputTokens: number | undefined;
  /** Members of the request that the upstream does not know and was not sent. */
  readonly dropped: readonly string[];
}

/** Something that embeds: a provider over HTTP, or the built-in model. */
export interface EmbeddingUpstream {
  /** Inputs may be token ids. */
  readonly takesTokenIds: boolean;
  /** Embeds all inputs of a request. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  embed(call: EmbeddingCall): Promise<Embedded>;
}
