import type { TokenLogprob, TopLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Log probabilities in Chat's form. */

function renderOne({ token, logprob, utf8 }: TokenLogprob | TopLogprob): JsonObject {
  return { token, logprob, bytes: utf8.length === 0 ? null : [...utf8] };
}

/** The tokens as `logprobs.content` lists them. */
export function renderTokens(logprobs: readonly TokenLogprob[]): JsonObject[] {
  return logprobs.map(each => ({ ...renderOne(each), top_logprobs: each.top.map(renderOne) }));
}
