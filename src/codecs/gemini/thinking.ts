import { type GenerateRequest, ReasoningEffort, ThinkingMode } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../../generation/check/field-names.ts';
import type { JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { toBudget, toEffort } from '../effort.ts';
import type { ModelTraits, ThinkingLevel } from './model-traits.ts';

/** Encodes reasoning settings as `thinkingConfig`. Sources: docs/interfaces/README.md "Effort and thinking budgets", docs/providers.md "The Gemini protocol". */

/** The model's traits, and the output limit; budgets must be below it. */
interface Situation {
  readonly traits: ModelTraits;
  readonly limit: number | undefined;
}

/** Returns the member `thinkingConfig`; an empty object if nothing was requested, or if the model has no such setting. */
export function thinkingConfig(request: GenerateRequest, situation: Situation, drops: Drops): JsonObject {
  const { reasoning } = request;
  if (reasoning === undefined) return {};
  const { effort, thinking, budgetTokens, display } = reasoning;
  const isOff = thinking === ThinkingMode.DISABLED || effort === ReasoningEffort.NONE;
  if (thinking === ThinkingMode.UNSPECIFIED && effort === ReasoningEffort.UNSPECIFIED) return {};
  const field = fieldName(request.endpoint, 'reasoning');
  const { traits } = situation;
  if (traits.thinking === 'none') {
    if (!isOff) drops.add(field);
    return {};
  }
  if (isOff) return { thinkingConfig: off(traits, field, drops) };
  const shown = display === 'omitted' ? {} : { includeThoughts: true };
  if (effort === ReasoningEffort.UNSPECIFIED && budgetTokens === undefined) {
    // The model itself decides how much it reasons.
    return { thinkingConfig: traits.thinking === 'budget' ? { thinkingBudget: -1, ...shown } : shown };
  }
  if (traits.thinking === 'level') {
    const requested = budgetTokens === undefined ? effort : toEffort(budgetTokens);
    return { thinkingConfig: { thinkingLevel: chooseLevel(requested, traits), ...shown } };
  }
  const requested = budgetTokens ?? toBudget(effort);
  const budget = Math.min(requested, traits.budgetMax, (situation.limit ?? Infinity) - 1);
  if (budget < traits.budgetMin) {
    drops.add(field);
    return { thinkingConfig: traits.canDisableThinking ? { thinkingBudget: 0 } : {} };
  }
  if (budgetTokens !== undefined && budgetTokens > traits.budgetMax) drops.add(`${field}.budget_tokens`);
  return { thinkingConfig: { thinkingBudget: budget, ...shown } };
}

/** Returns the setting for no thinking: the least that the model accepts, with a warning if that is more than none. */
function off(
  { canDisableThinking, thinking, budgetMin, levels }: ModelTraits,
  field: string,
  drops: Drops,
): JsonObject {
  if (canDisableThinking) return { thinkingBudget: 0 };
  drops.add(field);
  return thinking === 'budget' ? { thinkingBudget: budgetMin } : { thinkingLevel: levels[0] ?? 'LOW' };
}

const rank: Readonly<Partial<Record<ReasoningEffort, ThinkingLevel>>> = {
  [ReasoningEffort.MINIMAL]: 'MINIMAL',
  [ReasoningEffort.LOW]: 'LOW',
  [ReasoningEffort.MEDIUM]: 'MEDIUM',
};
const order: readonly ThinkingLevel[] = ['MINIMAL', 'LOW', 'MEDIUM', 'HIGH'];

/** Returns the level of an effort; if the model lacks that level, the next higher one. */
function chooseLevel(effort: ReasoningEffort, { levels }: ModelTraits): ThinkingLevel {
  const wanted = order.indexOf(rank[effort] ?? 'HIGH');
  return levels.find(level => order.indexOf(level) >= wanted) ?? 'HIGH';
}
