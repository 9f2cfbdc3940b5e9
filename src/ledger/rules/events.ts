import { isoTime } from '../../lib/clock.ts';
import { dollarsText } from '../../lib/dollars.ts';
import type { EventType } from '../webhooks.ts';
import type { Account, Group, Key, Rows } from '../rows.ts';
import type { BoundLimit } from './limits.ts';
import { nextNumber } from './context.ts';

/** Events for webhooks are written in the transaction that causes them, and only if a webhook subscribes to them. */

const deliveryMs = 3 * 86_400_000;

/** An event to write. `accountId` 0: it concerns no account. */
export interface NewEvent {
  readonly accountId: number;
  readonly type: EventType;
  /** Events of one scope are delivered in their order. */
  readonly scope: string;
  readonly data: object;
}

/** Returns whether any webhook receives an account's events. */
export function isWatched(rows: Rows, accountId: number): boolean {
  return rows.listWebhooks(accountId).length > 0 || rows.listWebhooks(0).length > 0;
}

/** Writes an event and its deliveries to the webhooks of the account and of the operator that subscribe to it. */
export function emit(rows: Rows, { accountId, type, scope, data }: NewEvent, nowMs: number): void {
  const known = accountId === 0 ? rows.listWebhooks(0) : [...rows.listWebhooks(accountId), ...rows.listWebhooks(0)];
  const wanting = known.filter(({ events }) => events.includes(type));
  if (wanting.length === 0) return;
  const id = nextNumber(rows, 'event');
  const text = JSON.stringify(accountId === 0 ? data : { account_id: accountId, ...data });
  rows.addEvent({ id, accountId, type, scope, data: text, atMs: nowMs });
  for (const { id: webhookId } of wanting) {
    rows.deliveries.put({
      eventId: id,
      webhookId,
      scope,
      state: 'pending',
      attempts: 0,
      nextAtMs: nowMs,
      untilMs: nowMs + deliveryMs,
      status: null,
      error: null,
      endedAtMs: null,
    });
  }
}

const thresholds = [80, 100] as const;
/** The shortest time between two events of a limit without a calendar window. */
const againMs = 60_000;

/**
 * Writes an event for each limit that a request has brought to a threshold: once per calendar window. For a rolling minute, or a limit
 * without a window, it is written when the threshold is crossed, at most once a minute. `before`: the limits before the request, in the same order.
 */
export function emitThresholdEvents(
  rows: Rows,
  before: readonly BoundLimit[],
  after: readonly BoundLimit[],
  { used, nowMs }: { readonly used: (bound: BoundLimit) => bigint; readonly nowMs: number },
): void {
  for (const [index, bound] of after.entries()) {
    const { limit, max } = bound;
    const current = used(bound);
    if (max === 0n || current * 100n < max * 80n) continue;
    for (const threshold of thresholds) {
      if (current * 100n < max * BigInt(threshold)) continue;
      const name = `limit ${limit.id} ${threshold}`;
      const mark = rows.eventMarks.get(name);
      const { number } = bound.window;
      const isCalendar = limit.per !== 'minute' && limit.per !== null;
      if (isCalendar && mark !== undefined && mark.number >= number) continue;
      if (!isCalendar) {
        const previous = before[index];
        const wasReached = previous !== undefined && used(previous) * 100n >= max * BigInt(threshold);
        if (wasReached || (mark !== undefined && nowMs - mark.atMs < againMs)) continue;
      }
      rows.eventMarks.put({ name, number, atMs: nowMs });
      emit(rows, describeThreshold(bound, threshold, current), nowMs);
    }
  }
}

function describeThreshold({ limit, max, window }: BoundLimit, threshold: number, used: bigint): NewEvent {
  const { id, accountId, scope, scopeId, unit, per } = limit;
  const amount = (value: bigint): unknown => (unit === 'usd' ? JSON.rawJSON(dollarsText(value)) : Number(value));
  const resets_at = per === 'minute' || window.endMs === Number.POSITIVE_INFINITY ? null : isoTime(window.endMs);
  return {
    accountId,
    type: 'limit.threshold',
    scope: `${scope} ${scopeId}`,
    data: {
      limit_id: id,
      threshold,
      scope: { type: scope, id: scopeId },
      unit,
      window: per,
      used: amount(used),
      max: amount(max),
      resets_at,
    },
  };
}

/** The owner of a balance. */
type BalanceOwner =
  | { readonly type: 'account'; readonly row: Account }
  | { readonly type: 'key'; readonly row: Key }
  | { readonly type: 'group'; readonly row: Group };

/** Writes an event if a balance has fallen below its owner's threshold; `before`: the balance before. */
export function emitLowBalanceEvent(rows: Rows, { type, row }: BalanceOwner, before: bigint, nowMs: number): void {
  const { lowBalance, balance } = row;
  if (lowBalance === null || balance === null || before < lowBalance || balance >= lowBalance) return;
  const accountId = type === 'account' ? row.id : row.accountId;
  const dollars = (value: bigint): unknown => JSON.rawJSON(dollarsText(value));
  const named = type === 'account' ? {} : { [type === 'key' ? 'api_key_id' : 'group_id']: row.id };
  const data = { ...named, scope: { type, id: row.id }, balance: dollars(balance), low_balance: dollars(lowBalance) };
  emit(rows, { accountId, type: 'balance.low', scope: `${type} ${row.id}`, data }, nowMs);
}

/** Writes an event of a key. */
export function emitKeyEvent(
  rows: Rows,
  key: Key,
  type: Extract<EventType, `key.${string}`>,
  more: { readonly nowMs: number } & Record<string, unknown>,
): void {
  const { nowMs, ...data } = more;
  const { id, accountId, label, masked, groupId } = key;
  const named = { api_key_id: id, key: masked, label, group_id: groupId };
  emit(rows, { accountId, type, scope: `key ${id}`, data: { ...named, ...data } }, nowMs);
}
