import type { TokenLogprob, TopLogprob } from '../gen/tollgate/v1/content_pb.ts';
import { numberIn } from '../lib/exact-json.ts';
import type { Json, JsonObject } from './codec.ts';
import { objectsIn } from './json.ts';

/** Log probabilities as Chat Completions and Responses list them. */

type Token = Omit<TopLogprob, '$typeName'>;

function parseToken({ token, logprob: said, bytes }: JsonObject): Token | undefined {
  const logprob = numberIn(said);
  if (typeof token !== 'string' || logprob === undefined) return undefined;
  const isBytes = Array.isArray(bytes) && bytes.every(byte => typeof byte === 'number');
  return { token, logprob, utf8: isBytes ? Uint8Array.from(bytes) : new Uint8Array() };
}

/** Returns the tokens of a list; anything else in it is left out. */
export function parseTokens(list: Json | undefined): TokenLogprob[] {
  return toTokens(objectsIn(list), parseToken, value => objectsIn(value['top_logprobs']));
}

/** Returns the tokens that `parse` reads, each with the others that might have stood in its place. */
export function toTokens(
  values: readonly JsonObject[],
  parse: (value: JsonObject) => Token | undefined,
  others: (value: JsonObject, place: number) => readonly JsonObject[],
): TokenLogprob[] {
  return values.flatMap((value, place) => {
    const token = parse(value);
    if (token === undefined) return [];
    const top = others(value, place)
      .map(parse)
      .filter(each => each !== undefined)
      .map((each): TopLogprob => ({ $typeName: 'tollgate.v1.TopLogprob', ...each }));
    return [{ $typeName: 'tollgate.v1.TokenLogprob', ...token, top }];
  });
}

/** Returns the tokens as a protocol lists them: `render` gives the members of one. */
export function renderTokens(logprobs: readonly TokenLogprob[], render: (token: Token) => JsonObject): JsonObject[] {
  return logprobs.map(each => ({ ...render(each), top_logprobs: each.top.map(render) }));
}
