import type { LedgerCheck } from '../core/configuration-admin.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { systemClock } from '../lib/clock.ts';

/** Returns a function that checks all invariants of the ledger while the gateway runs. Concurrent calls share one check. */
export function ledgerCheck(ledger: Pick<Ledger, 'verify'>): () => Promise<LedgerCheck> {
  let running: Promise<LedgerCheck> | undefined;
  const check = async (): Promise<LedgerCheck> => {
    const startedAtMs = systemClock.now();
    const violations = await ledger.verify();
    return { violations, startedAtMs, durationMs: systemClock.now() - startedAtMs };
  };
  return () => {
    running ??= check().finally(() => {
      running = undefined;
    });
    return running;
  };
}
