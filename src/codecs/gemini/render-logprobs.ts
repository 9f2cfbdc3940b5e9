import type { TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Returns `logprobsResult` of tokens. */
export function renderLogprobs(tokens: readonly TokenLogprob[]): JsonObject {
  const render = ({ token, logprob }: Pick<TokenLogprob, 'token' | 'logprob'>): JsonObject => ({
    token,
    logProbability: logprob,
  });
  return {
    chosenCandidates: tokens.map(render),
    topCandidates: tokens.map(({ top }) => ({ candidates: top.map(render) })),
  };
}
