import { count, dollars } from '../data/money.ts';
import { durationText } from '../data/time.ts';
import type { Measure } from './search.ts';

/** Returns the function that formats values of a measure. */
export function formatMeasure(measure: Measure): (value: bigint) => string {
  if (measure === 'spend') return dollars;
  return measure === 'latency' ? durationText : count;
}
