import type { LargeMemory } from '../src/core/held-content.ts';
import { WaitingBudget } from '../src/lib/waiting-budget.ts';

/** Returns memory for large bodies and contents, as much as a gateway has by default. */
export function largeMemory(): LargeMemory {
  return new WaitingBudget(() => ({ max: 256 << 20, ownerMax: 128 << 20, waitMs: 10_000 }));
}
