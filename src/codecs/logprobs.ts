import type { TokenLogprob, TopLogprob } from '../gen/tollgate/v1/content_pb.ts';
import type { Json } from './codec.ts';
import { listIn, objectIn } from './json.ts';

/** Log probabilities as Chat Completions and Responses list them. */

interface Token {
  readonly token: string;
  readonly logprob: number;
  readonly utf8: Uint8Array;
}

function parseOne(value: Json): Token | undefined {
  const { token, logprob, bytes } = objectIn(value) ?? {};
  if (typeof token !== 'string' || typeof logprob !== 'number') return undefined;
  const isBytes = Array.isArray(bytes) && bytes.every(byte => typeof byte === 'number');
  return { token, logprob, utf8: isBytes ? Uint8Array.from(bytes) : new Uint8Array() };
}

/** The tokens of a list; what is not a token is left out. */
export function parseTokens(list: readonly Json[]): TokenLogprob[] {
  return list.flatMap(value => {
    const token = parseOne(value);
    if (token === undefined) return [];
    const top = listIn(objectIn(value)?.['top_logprobs'])
      .map(parseOne)
      .filter(each => each !== undefined)
      .map((each): TopLogprob => ({ $typeName: 'tollgate.v1.TopLogprob', ...each }));
    return [{ $typeName: 'tollgate.v1.TokenLogprob', ...token, top }];
  });
}
