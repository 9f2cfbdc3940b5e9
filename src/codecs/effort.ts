import { ReasoningEffort } from '../gen/tollgate/v1/request_pb.ts';

/** Converts reasoning efforts to thinking budgets and back. Source: docs/interfaces/README.md "Effort and thinking budgets". */

const named = {
  none: ReasoningEffort.NONE,
  minimal: ReasoningEffort.MINIMAL,
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.XHIGH,
  max: ReasoningEffort.MAX,
} as const;

/** The names of efforts. */
export type EffortName = keyof typeof named;

const names = new Map<ReasoningEffort, string>(Object.entries(named).map(([name, effort]) => [effort, name]));

/** Returns the effort with that name; UNSPECIFIED if there is no name. */
export function decodeEffort(name: EffortName | null | undefined): ReasoningEffort {
  return name == null ? ReasoningEffort.UNSPECIFIED : named[name];
}

/** Returns the name of an effort; undefined if unspecified. */
export function effortName(effort: ReasoningEffort): string | undefined {
  return names.get(effort);
}
const budgets: readonly (readonly [effort: ReasoningEffort, tokens: number])[] = [
  [ReasoningEffort.LOW, 1_024],
  [ReasoningEffort.MEDIUM, 4_096],
  [ReasoningEffort.HIGH, 16_384],
  [ReasoningEffort.XHIGH, 32_768],
];

/** Returns the effort whose budget is nearest to `tokens`; of two equally near, the lower. */
export function toEffort(tokens: number): ReasoningEffort {
  let nearest: ReasoningEffort = ReasoningEffort.LOW;
  let distance = Infinity;
  for (const [effort, budget] of budgets) {
    if (Math.abs(tokens - budget) >= distance) continue;
    nearest = effort;
    distance = Math.abs(tokens - budget);
  }
  return nearest;
}

/** Returns the thinking budget of an effort, before any limit; 0 for none or unspecified. */
export function toBudget(effort: ReasoningEffort): number {
  if (effort === ReasoningEffort.MINIMAL) return 1_024;
  if (effort === ReasoningEffort.MAX) return 32_768;
  return budgets.find(([each]) => each === effort)?.[1] ?? 0;
}
