import type { ExtendCommand, Extended } from '../ledger.ts';
import type { Hold } from '../rows.ts';
import { type Context, present } from './context.ts';
import { moreOf, type Sources, tokensLeft } from './grants.ts';
import { raiseHold } from './holds.ts';
import { countSources, keepPayment } from './payments.ts';

/**
 * Holds more for a request that runs: output tokens as far as the funds go, amounts wholly or not at all. `extension` names the command: its repeat
 * answers the same and holds nothing more.
 */
export function extend(context: Context, command: ExtendCommand, extension: number): Extended {
  const hold = context.rows.holds.get(command.id);
  if (hold === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
  const key = present(context.rows.keys.get(hold.keyId));
  const left = countSources(keepPayment(context, key, hold));
  if (hold.extension === extension) return answer('extended', hold, left, hold.extendedTokens ?? 0);
  return 'outputTokens' in command
    ? extendByTokens(context, { hold, left, extension }, command.outputTokens)
    : extendByAmount(context, { hold, left, extension }, command);
}

interface Extending {
  readonly hold: Hold;
  readonly left: Sources;
  readonly extension: number;
}

function extendByTokens({ rows }: Context, { hold, left, extension }: Extending, wanted: number): Extended {
  if (hold.tokens === null) return answer('extended', hold, left, wanted);
  const { byPlan, byMoney, nanoUsd } = moreOf(hold, wanted, left);
  const extendedTokens = byPlan + byMoney;
  if (extendedTokens <= 0) return answer('denied', hold, left, 0);
  const after: Hold = {
    ...hold,
    held: hold.held + nanoUsd,
    tokens: hold.tokens + extendedTokens,
    planHeld: hold.planHeld + byPlan,
    planOutput: hold.planOutput + byPlan,
    extension,
    extendedTokens,
  };
  raiseHold(rows, after, { money: nanoUsd, planTokens: byPlan });
  const rest = { ...left, planTokens: left.planTokens - byPlan, nanoUsd: left.nanoUsd - nanoUsd };
  return answer('extended', after, rest, extendedTokens);
}

function extendByAmount(
  { rows }: Context,
  { hold, left, extension }: Extending,
  { nanoUsd, expiresAtMs: wanted }: { readonly nanoUsd: bigint; readonly expiresAtMs?: number },
): Extended {
  if (nanoUsd < 0n || nanoUsd > left.nanoUsd) return answer('denied', hold, left, 0);
  // Only other services' holds expire; the gateway's own live as long as it does.
  const expiresAtMs = hold.expiresAtMs === null ? null : (wanted ?? hold.expiresAtMs);
  const after: Hold = { ...hold, held: hold.held + nanoUsd, expiresAtMs, extension, extendedTokens: 0 };
  raiseHold(rows, after, { money: nanoUsd, planTokens: 0 });
  const reply = answer('extended', after, { ...left, nanoUsd: left.nanoUsd - nanoUsd }, 0);
  return { ...reply, ...(expiresAtMs === null ? {} : { expiresAtMs }) };
}

function answer(kind: 'extended' | 'denied', hold: Hold, left: Sources, granted: number): Extended {
  return {
    kind,
    outputTokens: granted,
    heldNanoUsd: hold.held,
    outputTokensAvailable: tokensLeft(hold, left),
  };
}
