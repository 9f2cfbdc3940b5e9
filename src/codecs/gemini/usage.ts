import type { Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from '../codec.ts';
import { countIn } from '../json.ts';

/**
 * `usageMetadata`: the prompt's count includes cached tokens, reasoning is counted next to the candidates. Source:
 * docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation"; cases US-11, US-18.
 */

/**
 * Parses an upstream's usage into buckets that do not overlap: `members` of all its reports so far, later ones over
 * earlier ones. Undefined if it contains nothing plausible, so that the gateway counts itself.
 */
export function parseUsage(members: JsonObject): Usage | undefined {
  const prompt = countIn(members['promptTokenCount']);
  const tools = countIn(members['toolUsePromptTokenCount']);
  const cached = countIn(members['cachedContentTokenCount']);
  const candidates = countIn(members['candidatesTokenCount']);
  const thoughts = countIn(members['thoughtsTokenCount']);
  const output = sum(candidates, thoughts);
  const input = sum(prompt, tools);
  // Every answer has tokens: upstreams that report only zeros do not count.
  if ((input ?? 0) === 0 && (output ?? 0) === 0) return undefined;
  const isPart = cached !== undefined && cached <= (input ?? 0);
  return {
    $typeName: 'tollgate.v1.Usage',
    ...(input === undefined ? {} : { inputTokens: input - (isPart ? cached : 0) }),
    ...(isPart ? { cacheReadTokens: cached } : {}),
    ...(output === undefined ? {} : { outputTokens: output }),
    ...(thoughts === undefined ? {} : { reasoningTokens: thoughts }),
  };
}

function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : one + (other ?? 0);
}
