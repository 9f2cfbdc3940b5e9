import type { Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from '../codec.ts';
import { countIn } from '../json.ts';
import { unknownCounters, usageCounters } from '../usage-counters.ts';

/**
 * Parses `usageMetadata`: the prompt's count includes cached tokens; the candidates' count does not include reasoning. Source:
 * docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation"; translation cases US-11, US-18.
 */

/**
 * Parses an upstream's usage into buckets that do not overlap. `members`: those of all its reports so far; later values replace earlier
 * ones. Returns undefined if no count is plausible; the gateway then counts itself.
 */
export function parseUsage(members: JsonObject): Usage | undefined {
  const prompt = countIn(members['promptTokenCount']);
  const tools = countIn(members['toolUsePromptTokenCount']);
  const cached = countIn(members['cachedContentTokenCount']);
  const candidates = countIn(members['candidatesTokenCount']);
  const thoughts = countIn(members['thoughtsTokenCount']);
  const output = sum(candidates, thoughts);
  const input = sum(prompt, tools);
  // Every answer has tokens, so an upstream that reports only zeros does not count them.
  if ((input ?? 0) === 0 && (output ?? 0) === 0) return undefined;
  // More cached tokens than input are beside the input.
  const isPart = cached !== undefined && cached <= (input ?? 0);
  return {
    $typeName: 'tollgate.v1.Usage',
    unpriced: unknownCounters(members, usageCounters.gemini),
    ...(input === undefined ? {} : { inputTokens: input - (isPart ? cached : 0) }),
    ...(cached === undefined ? {} : { cacheReadTokens: cached }),
    ...(output === undefined ? {} : { outputTokens: output }),
    ...(thoughts === undefined ? {} : { reasoningTokens: thoughts }),
  };
}

function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : one + (other ?? 0);
}
