/** Data directories on which a test file has started gateways and has not verified the ledger's invariants since. */
export const unverified = new Set<string>();
