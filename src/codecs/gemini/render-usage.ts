import type { Completed } from '../../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from '../codec.ts';
import { toDollars } from '../dollars.ts';
import { countIn } from '../json.ts';
import { tierName } from '../service-tier.ts';
import { extras } from './extras.ts';

/** Renders `usageMetadata`. As Google counts, the prompt includes cached tokens, and thoughts are beside the candidates. Source: docs/interfaces/gemini.md "Answer". */
export function renderUsage(completed: Completed): JsonObject {
  const { usage, costNanoUsd } = completed;
  const own = extras.members(usage?.extra);
  const read = usage?.cacheReadTokens ?? 0;
  const written = (usage?.cacheWrite5mTokens ?? 0) + (usage?.cacheWrite1hTokens ?? 0);
  const input = (usage?.inputTokens ?? 0) + read + written;
  const thoughts = usage?.reasoningTokens ?? 0;
  const output = usage?.outputTokens ?? 0;
  // A Gemini provider counts the input of its own tools beside the prompt.
  const toolUse = Math.min(countIn(own['toolUsePromptTokenCount']) ?? 0, input);
  const tier = tierName(completed);
  return {
    promptTokenCount: input - toolUse,
    candidatesTokenCount: output - thoughts,
    totalTokenCount: input + output,
    ...(read === 0 ? {} : { cachedContentTokenCount: read }),
    ...(thoughts === 0 ? {} : { thoughtsTokenCount: thoughts }),
    ...(tier === undefined ? {} : { serviceTier: tier }),
    ...own,
    cost: toDollars(costNanoUsd),
  };
}
