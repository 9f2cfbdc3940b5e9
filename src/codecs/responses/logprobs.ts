import type { TokenLogprob, TopLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Log probabilities in the form of Responses: bytes are always a list. */

function renderOne({ token, logprob, utf8 }: TokenLogprob | TopLogprob): JsonObject {
  return { token: token.toWellFormed(), logprob, bytes: [...utf8] };
}

/** The tokens as `logprobs` lists them. */
export function renderTokens(logprobs: readonly TokenLogprob[]): JsonObject[] {
  return logprobs.map(each => ({ ...renderOne(each), top_logprobs: each.top.map(renderOne) }));
}
