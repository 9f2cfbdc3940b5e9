import { overloaded } from '../errors/overloaded.ts';
import type { Settled } from '../ledger/ledger.ts';

/**
 * Checks that a request was charged. Throws `overloaded` if its hold was voided before: another gateway voids the holds of this one if it was paused for longer than its lease. In that case nothing was charged, so the answer must not end as a success.
 */
export function checkSettled({ kind }: Settled, id: number): void {
  if (kind === 'settled') return;
  const cause = new Error(`settle of ${id}: ${kind}`);
  if (kind === 'not_held')
    throw overloaded('The gateway was paused for too long, so the request was abandoned and not charged.', cause);
  throw cause;
}
