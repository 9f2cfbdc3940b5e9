import type { ToolCharge } from '../generation/price.ts';

/** Calls of tools, as the ledger stores them: a JSON array of `[tool, calls, nano-dollars per call]`, which SQL can sum. */
type ChargeValues = [tool: ToolCharge['tool'], calls: number, nanoUsd: number];

/** Encodes charges for storage; null: there are none. */
export function writeToolCharges(charges: readonly ToolCharge[] | undefined): string | null {
  if (charges === undefined || charges.length === 0) return null;
  return JSON.stringify(charges.map(({ tool, calls, nanoUsd }): ChargeValues => [tool, calls, Number(nanoUsd)]));
}

/** Returns charges from their stored text. */
export function readToolCharges(text: string | null): ToolCharge[] {
  if (text === null) return [];
  const values = JSON.parse(text) as ChargeValues[];
  return values.map(([tool, calls, nanoUsd]) => ({ tool, calls, nanoUsd: BigInt(nanoUsd) }));
}
