import type { LargeMemory } from '../core/held-content.ts';
import type { JsonBounds } from '../edge/json-bounds.ts';
import type { ParserLimits } from '../edge/json-parser.ts';
import { WaitingBudget } from '../lib/waiting-budget.ts';
import type { LiveConfig } from './live-config.ts';

/** Returns the bounds of JSON that clients send: bodies, and lines of files. */
export function bodyBounds(live: LiveConfig): JsonBounds {
  const { bodyDepth: depthMax, bodyValues: valuesMax, listEntries: entriesMax } = live.current.limits;
  return { depthMax, valuesMax, entriesMax };
}

/** Returns the limits with which a thread that parses JSON starts. */
export function parserLimits(live: LiveConfig): ParserLimits {
  const { parseMemoryBytes: memoryBytesMax, parseMs: timeMs } = live.current.limits;
  return { memoryBytesMax, timeMs };
}

/** Returns the memory of large bodies and large stored contents. */
export function openMemory(live: LiveConfig): LargeMemory {
  return new WaitingBudget(() => {
    const { bodyBytes, bodyMemoryBytes, accountBodyMemoryBytes, memoryWaitMs: waitMs } = live.current.limits;
    // At least the size of the largest body, so that one always fits.
    return {
      max: Math.max(bodyBytes, bodyMemoryBytes),
      ownerMax: Math.max(bodyBytes, accountBodyMemoryBytes),
      waitMs,
    };
  });
}
