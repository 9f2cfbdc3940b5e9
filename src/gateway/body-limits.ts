import type { JsonBounds } from '../edge/json-bounds.ts';
import type { ParserLimits } from '../edge/json-parser.ts';
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
