import type { TokenLogprob, TopLogprob } from '../gen/tollgate/v1/content_pb.ts';
import { numberIn } from '../lib/exact-json.ts';
import type { Json, JsonObject } from './codec.ts';
import { objectsIn } from './json.ts';

/** Converts log probabilities to and from the form of Chat Completions and Responses. */

type Token = Omit<TopLogprob, '$typeName'>;

function parseToken({ token, logprob: rawLogprob, bytes }: JsonObject): Token | undefined {
  const logprob = numberIn(rawLogprob);
  if (typeof token !== 'string' || logprob === undefined) return undefined;
  const isBytes = Array.isArray(bytes) && bytes.every(byte => typeof byte === 'number');
  return { token, logprob, utf8: isBytes ? Uint8Array.from(bytes) : new Uint8Array() };
}

/** Returns the valid tokens of a list and skips everything else. */
export function parseTokens(list: Json | undefined): TokenLogprob[] {
  return toTokens(objectsIn(list), parseToken, value => objectsIn(value['top_logprobs']));
}

/** Returns the tokens that `parse` accepts, each with its `alternatives`. */
export function toTokens(
  values: readonly JsonObject[],
  parse: (value: JsonObject) => Token | undefined,
  alternatives: (value: JsonObject, index: number) => readonly JsonObject[],
): TokenLogprob[] {
  return values.flatMap((value, index) => {
    const token = parse(value);
    if (token === undefined) return [];
    const top = alternatives(value, index)
      .map(parse)
      .filter(each => each !== undefined)
      .map((each): TopLogprob => ({ $typeName: 'tollgate.v1.TopLogprob', ...each }));
    return [{ $typeName: 'tollgate.v1.TokenLogprob', ...token, top }];
  });
}

/** Renders tokens and their alternatives as JSON; `render` returns the members of one token. */
export function renderTokens(logprobs: readonly TokenLogprob[], render: (token: Token) => JsonObject): JsonObject[] {
  return logprobs.map(each => ({ ...render(each), top_logprobs: each.top.map(render) }));
}
