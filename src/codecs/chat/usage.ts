import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { Completed, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { dollarsOf } from '../dollars.ts';
import { countIn, objectIn } from '../json.ts';
import { extraOfUsage, inputBuckets } from '../usage-details.ts';
import { extras } from './extras.ts';

/** Usage: Chat counts cached and written input inside `prompt_tokens`, the model in buckets that do not overlap. Source: wire.md B1, C3; cases US-02 to US-18. */

/** What `completed` says, as Chat's usage with the cost in dollars. Counts that nobody gave are shown as 0, as the official interface does. */
export function renderUsage(completed: Completed): JsonObject {
  const { usage } = completed;
  const write1h = usage?.cacheWrite1hTokens ?? 0;
  const cacheWrite = (usage?.cacheWrite5mTokens ?? 0) + write1h;
  const cached = usage?.cacheReadTokens ?? 0;
  const prompt = (usage?.inputTokens ?? 0) + cached + cacheWrite;
  const output = usage?.outputTokens ?? 0;
  const rest = extras.members(usage?.extra);
  return {
    ...rest,
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: {
      ...objectIn(rest['prompt_tokens_details']),
      cached_tokens: cached,
      cache_write_tokens: cacheWrite,
      ...(write1h === 0 ? {} : { cache_write_1h_tokens: write1h }),
    },
    completion_tokens_details: {
      ...objectIn(rest['completion_tokens_details']),
      reasoning_tokens: usage?.reasoningTokens ?? 0,
    },
    cost: dollarsOf(completed.costNanoUsd),
  };
}

const known = {
  // The gateway's own price is the client's.
  own: new Set([
    'prompt_tokens',
    'completion_tokens',
    'total_tokens',
    'prompt_tokens_details',
    'completion_tokens_details',
    'cost',
  ]),
  inside: {
    prompt_tokens_details: new Set(['cached_tokens', 'cache_write_tokens', 'cache_write_1h_tokens']),
    completion_tokens_details: new Set(['reasoning_tokens']),
  },
};

/**
 * The usage that an upstream reports, in buckets that do not overlap. Undefined where it says nothing that can be true, so that the gateway counts itself. Counts that
 * contradict the whole are left out.
 */
export function parseUsage(value: Json | undefined): Usage | undefined {
  const usage = objectIn(value);
  if (usage === undefined) return undefined;
  const prompt = countIn(usage['prompt_tokens']);
  const completion = countIn(usage['completion_tokens']);
  // No answer is made from nothing: upstreams that send zeros do not count.
  if ((prompt ?? 0) === 0 && (completion ?? 0) === 0) return undefined;
  const details = objectIn(usage['prompt_tokens_details']) ?? {};
  const extra = extraOfUsage(Protocol.CHAT, usage, known);
  return {
    $typeName: 'tollgate.v1.Usage',
    ...inputBuckets(prompt, cachedIn(usage, details), details),
    ...outputBuckets(usage, prompt, completion),
    ...(extra === undefined ? {} : { extra }),
  };
}

/** DeepSeek and Moonshot have their own names for what was read from the cache. */
function cachedIn(usage: JsonObject, details: JsonObject): number | undefined {
  const named = [details['cached_tokens'], usage['prompt_cache_hit_tokens'], usage['cached_tokens']];
  return named.map(countIn).find(count => count !== undefined);
}

/** Reasoning is part of the output (case US-18), but for upstreams whose total says that it stands beside it. */
function outputBuckets(usage: JsonObject, prompt: number | undefined, completion: number | undefined): Partial<Usage> {
  if (completion === undefined) return {};
  const reasoning = countIn(objectIn(usage['completion_tokens_details'])?.['reasoning_tokens']);
  if (reasoning === undefined) return { outputTokens: completion };
  const beside = reasoning > 0 && countIn(usage['total_tokens']) === (prompt ?? 0) + completion + reasoning;
  if (beside) return { outputTokens: completion + reasoning, reasoningTokens: reasoning };
  return reasoning > completion
    ? { outputTokens: completion }
    : { outputTokens: completion, reasoningTokens: reasoning };
}
