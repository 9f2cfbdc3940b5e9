import type { Completed } from '../../gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { dollarsOf } from '../dollars.ts';
import { extraMembers } from './reasoning-details.ts';

/** Usage: Chat counts cached and written input inside `prompt_tokens`, the model in buckets that do not overlap. Source: wire.md B1, C3; cases US-02 to US-18. */

/** What `completed` says, as Chat's usage with the cost in dollars. Counts that nobody gave are shown as 0, as the official interface does. */
export function renderUsage(completed: Completed): JsonObject {
  const { usage } = completed;
  const write1h = usage?.cacheWrite1hTokens ?? 0;
  const cacheWrite = (usage?.cacheWrite5mTokens ?? 0) + write1h;
  const cached = usage?.cacheReadTokens ?? 0;
  const prompt = (usage?.inputTokens ?? 0) + cached + cacheWrite;
  const output = usage?.outputTokens ?? 0;
  const rest = extraMembers(usage?.extra);
  return {
    ...rest,
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: {
      ...asObject(rest['prompt_tokens_details']),
      cached_tokens: cached,
      cache_write_tokens: cacheWrite,
      ...(write1h === 0 ? {} : { cache_write_1h_tokens: write1h }),
    },
    completion_tokens_details: {
      ...asObject(rest['completion_tokens_details']),
      reasoning_tokens: usage?.reasoningTokens ?? 0,
    },
    cost: dollarsOf(completed.costNanoUsd),
  };
}

/** The tier that was billed, in Chat's words. */
export function renderServiceTier(tier: ServiceTier): string {
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : 'default';
}

/** The tier that an upstream names; UNSPECIFIED where it names none that is known. */
export function parseServiceTier(tier: Json | undefined): ServiceTier {
  if (tier === 'flex') return ServiceTier.FLEX;
  if (tier === 'priority') return ServiceTier.PRIORITY;
  return tier === 'default' ? ServiceTier.DEFAULT : ServiceTier.UNSPECIFIED;
}

function asObject(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}
