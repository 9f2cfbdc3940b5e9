/** Data directories on which a test file has started gateways and has not seen since that every invariant of the ledger holds. */
export const unverified = new Set<string>();
