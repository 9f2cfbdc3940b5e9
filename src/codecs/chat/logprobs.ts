import type { TokenLogprob, TopLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json, JsonObject } from '../codec.ts';

/** Log probabilities in Chat's form and back. */

function renderOne({ token, logprob, utf8 }: TokenLogprob | TopLogprob): JsonObject {
  return { token, logprob, bytes: utf8.length === 0 ? null : [...utf8] };
}

/** The tokens as `logprobs.content` lists them. */
export function renderTokens(logprobs: readonly TokenLogprob[]): JsonObject[] {
  return logprobs.map(each => ({ ...renderOne(each), top_logprobs: each.top.map(renderOne) }));
}

interface Token {
  readonly token: string;
  readonly logprob: number;
  readonly utf8: Uint8Array;
}

function parseOne(value: Json): Token | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { token, logprob, bytes } = value;
  if (typeof token !== 'string' || typeof logprob !== 'number') return undefined;
  const isBytes = Array.isArray(bytes) && bytes.every(byte => typeof byte === 'number');
  return { token, logprob, utf8: isBytes ? Uint8Array.from(bytes) : new Uint8Array() };
}

/** The tokens of a `content` or `refusal` list; what is not a token is left out. */
export function parseTokens(list: Json | undefined): TokenLogprob[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap(value => {
    const token = parseOne(value);
    if (token === undefined) return [];
    const alternatives = (value as JsonObject)['top_logprobs'];
    const top = (Array.isArray(alternatives) ? alternatives : [])
      .map(parseOne)
      .filter(each => each !== undefined)
      .map((each): TopLogprob => ({ $typeName: 'tollgate.v1.TopLogprob', ...each }));
    return [{ $typeName: 'tollgate.v1.TokenLogprob', ...token, top }];
  });
}
