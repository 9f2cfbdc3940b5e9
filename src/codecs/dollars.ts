/**
 * Returns nano-dollars as dollars for JSON. The quotient is the double closest to the exact amount, so that its shortest decimal notation is
 * exactly the amount, up to 15 digits (a million dollars).
 */
export function toDollars(nanoUsd: bigint): number {
  return Number(nanoUsd) / 1e9;
}
