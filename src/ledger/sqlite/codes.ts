import type { RecordState, SettleCommand } from '../ledger.ts';
import type { Payer, Payers, SumChange, TierCode } from '../rows.ts';

/** The file stores these texts as their index in the list. New texts may be added only at the end of a list. */
export const codes = {
  payer: ['account', 'key_balance', 'group_balance'] satisfies Payer[],
  payers: ['money', 'plan', 'plan_money', 'money_plan', 'free_request'] satisfies Payers[],
  state: ['completed', 'incomplete', 'client_aborted', 'upstream_failed'] satisfies RecordState[],
  usageSource: ['reported', 'estimated'] satisfies SettleCommand['usageSource'][],
  serviceTier: ['default', 'flex', 'priority', 'named'] satisfies TierCode[],
  period: ['hour', 'day'],
  grouped: ['kind', 'key', 'group', 'end_user', 'tag'] satisfies SumChange['grouped'][],
} as const;

/** Returns the number that a text is stored as. */
export function encode<T extends string>(texts: readonly T[], text: T): number {
  return texts.indexOf(text);
}

/** Returns the text for a stored number. Throws if there is none. */
export function decode<T extends string>(texts: readonly T[], code: bigint | number): T {
  const text = texts[Number(code)];
  if (text === undefined) throw new Error(`the ledger has an unknown code ${code}`);
  return text;
}
