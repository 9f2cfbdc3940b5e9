/**
 * Nano-dollars as the number that JSON shows. The quotient is the double closest to the exact amount, so that its shortest decimal is the
 * amount itself up to 15 digits (a million dollars).
 */
export function toDollars(nanoUsd: bigint): number {
  return Number(nanoUsd) / 1e9;
}
