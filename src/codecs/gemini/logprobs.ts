import type { TokenLogprob, TopLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json } from '../codec.ts';
import { listIn, objectIn, textIn } from '../json.ts';

/** `logprobsResult` of a candidate: what was chosen at each place, and what else might have been. */
export function parseLogprobs(value: Json | undefined): TokenLogprob[] {
  const result = objectIn(value);
  if (result === undefined) return [];
  const tops = listIn(result['topCandidates']);
  return listIn(result['chosenCandidates']).flatMap((each, place) => {
    const chosen = tokenOf(each);
    if (chosen === undefined) return [];
    const top = listIn(objectIn(tops[place])?.['candidates']).flatMap(other => {
      const token = tokenOf(other);
      return token === undefined ? [] : [{ $typeName: 'tollgate.v1.TopLogprob', ...token } satisfies TopLogprob];
    });
    return [{ $typeName: 'tollgate.v1.TokenLogprob', ...chosen, top } satisfies TokenLogprob];
  });
}

function tokenOf(value: Json): { token: string; logprob: number; utf8: Uint8Array<ArrayBuffer> } | undefined {
  const candidate = objectIn(value);
  const logprob = candidate?.['logProbability'];
  if (typeof logprob !== 'number') return undefined;
  return { token: textIn(candidate?.['token']), logprob, utf8: new Uint8Array() };
}
