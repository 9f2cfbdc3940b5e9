import { overloaded } from '../errors/overloaded.ts';
import type { Settled } from '../ledger/ledger.ts';

/**
 * Checks that a request was charged. Throws `overloaded` if its hold was voided in the meantime, as other gateways do if this one was
 * paused for longer than its lease: then nothing was charged, and nothing may be delivered as charged.
 */
export function checkSettled({ kind }: Settled, id: number): void {
  if (kind === 'settled') return;
  const cause = new Error(`settle of ${id}: ${kind}`);
  if (kind === 'not_held') throw overloaded('The gateway was paused, and the request was given up.', cause);
  throw cause;
}
