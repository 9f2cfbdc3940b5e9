import type { TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json } from '../codec.ts';
import { listIn, objectIn, objectsIn, textIn } from '../json.ts';
import { toTokens } from '../logprobs.ts';

/** Reads a candidate's `logprobsResult`: the chosen token at each position, and its alternatives. */
export function parseLogprobs(value: Json | undefined): TokenLogprob[] {
  const result = objectIn(value) ?? {};
  const tops = listIn(result['topCandidates']);
  return toTokens(
    listIn(result['chosenCandidates']).map(each => objectIn(each) ?? {}),
    ({ token, logProbability: logprob }) =>
      typeof logprob === 'number' ? { token: textIn(token), logprob, utf8: new Uint8Array() } : undefined,
    (_, place) => objectsIn(objectIn(tops[place])?.['candidates']),
  );
}
