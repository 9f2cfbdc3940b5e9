import type { ExtendCommand, Extended } from '../ledger.ts';
import type { Hold, Key } from '../rows.ts';
import { type Context, present } from './context.ts';
import { findPayer } from './funds.ts';
import { computeMore, type Sources, tokensLeft } from './grants.ts';
import { raiseHold } from './holds.ts';
import { bindRequest } from './bind-limits.ts';
import type { BoundLimit } from './limits.ts';
import { countSources, keepPayment } from './payments.ts';
import { extensionSize } from './slices.ts';
import { tokenRoom } from './windows.ts';

/**
 * Holds more for a running request: output tokens, as many as the funds and the token limits allow, or an amount, wholly or not at all. The
 * id `extension` identifies the command: a repeat gets the same reply and holds nothing more.
 */
export function extend(
  context: Context,
  { command, extension }: { readonly command: ExtendCommand; readonly extension: number },
  nowMs: number,
): Extended {
  const hold = context.rows.holds.get(command.id);
  if (hold === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
  const key = present(context.rows.keys.get(hold.keyId));
  const bound = bindRequest(context.rows, hold, nowMs);
  const left = countSources(keepPayment(context, key, { request: hold, bound }, nowMs));
  const room = hold.text ? tokenRoom(bound, hold.admittedAtMs, nowMs) : Number.POSITIVE_INFINITY;
  const extending = { hold, key, bound, left, room, extension, nowMs };
  if (hold.extension === extension) return answer('extended', extending, hold.extendedTokens ?? 0);
  return 'outputTokens' in command
    ? extendByTokens(context, extending, command.outputTokens)
    : extendByAmount(context, extending, command);
}

interface Extending {
  readonly hold: Hold;
  readonly key: Key;
  readonly bound: readonly BoundLimit[];
  readonly left: Sources;
  /** The tokens that the token limits still allow. */
  readonly room: number;
  readonly extension: number;
  readonly nowMs: number;
}

function extendByTokens({ rows }: Context, extending: Extending, requested: number): Extended {
  const { hold, key, bound, left, room, extension, nowMs } = extending;
  if (hold.tokens === null) return answer('extended', extending, requested);
  const most = Math.min(tokensLeft(hold, left), room);
  const wanted = extensionSize(requested, most, findPayer(rows, key, hold).running);
  const { byPlan, byMoney, nanoUsd } = computeMore(hold, wanted, left);
  const extendedTokens = byPlan + byMoney;
  if (extendedTokens <= 0) return answer('denied', extending, 0);
  const after: Hold = {
    ...hold,
    held: hold.held + nanoUsd,
    tokens: hold.tokens + extendedTokens,
    planHeld: hold.planHeld + byPlan,
    planOutput: hold.planOutput + byPlan,
    extension,
    extendedTokens,
  };
  raiseHold(rows, [hold, after], bound, nowMs);
  const rest = { ...left, planTokens: left.planTokens - byPlan, nanoUsd: left.nanoUsd - nanoUsd };
  return answer('extended', { hold: after, left: rest, room: room - extendedTokens }, extendedTokens);
}

function extendByAmount(
  { rows }: Context,
  extending: Extending,
  { nanoUsd, expiresAtMs: wanted }: { readonly nanoUsd: bigint; readonly expiresAtMs?: number },
): Extended {
  const { hold, bound, left, extension, nowMs } = extending;
  if (nanoUsd < 0n || nanoUsd > left.nanoUsd) return answer('denied', extending, 0);
  // Only holds of other services expire; those of the gateway last as long as its process.
  const expiresAtMs = hold.expiresAtMs === null ? null : (wanted ?? hold.expiresAtMs);
  const after: Hold = { ...hold, held: hold.held + nanoUsd, expiresAtMs, extension, extendedTokens: 0 };
  raiseHold(rows, [hold, after], bound, nowMs);
  const rest = { ...left, nanoUsd: left.nanoUsd - nanoUsd };
  const reply = answer('extended', { ...extending, hold: after, left: rest }, 0);
  return { ...reply, ...(expiresAtMs === null ? {} : { expiresAtMs }) };
}

function answer(
  kind: 'extended' | 'denied',
  { hold, left, room }: Pick<Extending, 'hold' | 'left' | 'room'>,
  granted: number,
): Extended {
  return {
    kind,
    outputTokens: granted,
    heldNanoUsd: hold.held,
    // No hold limits the output of a request that costs nothing.
    outputTokensAvailable: hold.tokens === null ? Number.POSITIVE_INFINITY : Math.min(tokensLeft(hold, left), room),
  };
}
