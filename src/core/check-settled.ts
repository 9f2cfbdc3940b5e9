import { overloaded } from '../errors/overloaded.ts';
import type { Settled } from '../ledger/ledger.ts';

/**
 * Checks that a request was charged. Throws `overloaded` if its hold no longer exists: if this gateway is paused for longer than its lease,
 * another one voids its holds. Then nothing was charged, and the answer must not be delivered.
 */
export function checkSettled({ kind }: Settled, id: number): void {
  if (kind === 'settled') return;
  const cause = new Error(`settle of ${id}: ${kind}`);
  if (kind === 'not_held')
    throw overloaded('The gateway was paused for too long, and the request was abandoned.', cause);
  throw cause;
}
