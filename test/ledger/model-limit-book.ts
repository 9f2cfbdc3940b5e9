import type { WindowState } from '../../src/errors/gateway-error.ts';
import type { AdmitCommand, Denied, LimitChange, LimitRefusal, NewLimit } from '../../src/ledger/ledger.ts';
import type { GroupBook } from './model-groups.ts';
import {
  coversModel,
  inOrder,
  limitDenial,
  maxAt,
  type ModelLimit,
  toState,
  usedBeside,
  usedNow,
} from './model-limits.ts';
import type { ModelAccount, ModelKey, ModelRequest } from './model-types.ts';

/** The properties of a request that decide which limits apply to it. */
export type Binding = Pick<ModelRequest, 'key' | 'model' | 'endUser' | 'groups'>;

/** The requests and their owners. */
interface Owners {
  readonly accounts: ReadonlyMap<number, ModelAccount>;
  readonly keys: readonly ModelKey[];
  readonly requests: readonly ModelRequest[];
  readonly groups: GroupBook;
}

/** The limits of the reference model: which limits exist, which apply to a request, and what they decide. */
export class LimitBook {
  readonly all: ModelLimit[] = [];
  readonly #unit: 'dollars' | 'requests';
  readonly #of: Owners;

  constructor(unit: 'dollars' | 'requests', of: Owners) {
    this.#unit = unit;
    this.#of = of;
  }

  /** Returns the limits that apply to a request, in the order in which they refuse. */
  bound({ key, model, groups }: Pick<Binding, 'key' | 'model' | 'groups'>): ModelLimit[] {
    const bound = this.all.filter(limit => {
      const { scope, scopeId } = limit;
      const isOn =
        scope === 'key'
          ? scopeId === key.id
          : scope === 'account'
            ? scopeId === key.accountId
            : groups.includes(scopeId);
      return isOn && !limit.removed && coversModel(limit, model);
    });
    return inOrder(bound, groups);
  }

  /** Returns the requests that a limit counts; if it counts each end user separately, those of `endUser`. */
  counted(limit: ModelLimit, endUser: string | undefined): ModelRequest[] {
    const { scope, scopeId, endUsers } = limit;
    return this.#of.requests.filter(
      request =>
        (scope === 'key'
          ? request.key.id === scopeId
          : scope === 'account'
            ? request.key.accountId === scopeId
            : request.groups.includes(scopeId)) &&
        coversModel(limit, request.model) &&
        (endUsers === 'all' || request.endUser === endUser),
    );
  }

  states(binding: Binding, now: number): WindowState[] {
    const shown = this.bound(binding).filter(
      ({ unit, action }) => action === 'refuse' && (unit === 'requests' || unit === 'tokens'),
    );
    // The limits of key fields, and of the other limits the tightest of each unit; if two are equally tight, the first.
    const states = shown.map(limit => toState(limit, this.counted(limit, binding.endUser), now));
    const isTightest = (index: number): boolean => {
      const [limit, state] = [shown[index], states[index]];
      if (limit?.field !== undefined || state === undefined) return true;
      const alike = states.filter((each, at) => shown[at]?.field === undefined && each.unit === state.unit);
      const least = Math.min(...alike.map(({ remaining }) => remaining));
      return state === alike.find(({ remaining }) => remaining === least);
    };
    return states.filter((_, index) => isTightest(index)).sort((a, b) => a.remaining - b.remaining);
  }

  /** Returns how many tokens limits leave to a request that was admitted at `at`. */
  room(binding: Binding, at: number, now: number): number {
    const rooms = this.bound(binding)
      .filter(({ unit, action }) => unit === 'tokens' && action === 'refuse')
      .map(limit => Number(maxAt(limit, now) - usedBeside(limit, this.counted(limit, binding.endUser), at, now)));
    return Math.max(0, Math.min(Infinity, ...rooms));
  }

  /** Returns the refusal of the first limit without room, except limits of money. */
  refusal(
    { free, requests = 1, text }: AdmitCommand,
    binding: Binding,
    { windows, now }: { windows: WindowState[]; now: number },
  ): Denied | undefined {
    for (const limit of this.bound(binding)) {
      if (limit.unit === 'usd' || limit.action === 'alert') continue;
      const tokens = text === undefined ? 0 : text.inputTokens + text.outputTokensMin;
      const need = { requests: BigInt(free ? requests : 1), tokens: BigInt(tokens), concurrent: 1n }[limit.unit];
      const counted = this.counted(limit, binding.endUser);
      if (need === 0n || usedNow(limit, counted, now) + need <= maxAt(limit, now)) continue;
      return limitDenial(limit, counted, { need, windows, now });
    }
    return undefined;
  }

  /** Changes the limit that a field of a key has made, unless it was edited since. */
  setField(key: ModelKey, field: 'minute_limit' | 'daily_limit' | 'monthly_limit', value: bigint): void {
    const isDollars = field === 'monthly_limit' || (field === 'daily_limit' && this.#unit === 'dollars');
    const max = field === 'daily_limit' && isDollars ? value * 1_000_000_000n : value;
    const made = this.all.find(limit => !limit.removed && limit.field === field && limit.scopeId === key.id);
    const isSaid = made !== undefined && this.readField(key, field) !== null;
    if (made !== undefined && isSaid) {
      if (value === 0n) made.removed = true;
      else Object.assign(made, { max });
    } else if (value > 0n) {
      if (made !== undefined) made.field = undefined;
      const shape = { unit: isDollars ? 'usd' : 'requests', window: fieldWindows[field] } as const;
      const of = { ...plainLimit, ...shape, accountId: key.accountId, scope: 'key', scopeId: key.id, max } as const;
      this.#addLimit({ ...of, locked: field === 'monthly_limit' }, field);
    }
  }

  /** Returns the value of a key's field; 0: there is no limit; null: its limit was edited so that the field can't express it. */
  readField(key: ModelKey, field: 'minute_limit' | 'daily_limit' | 'monthly_limit'): bigint | null {
    const made = this.all.find(limit => !limit.removed && limit.field === field && limit.scopeId === key.id);
    if (made === undefined) return 0n;
    const { timeZone, models, endUsers, action, max, unit } = made;
    if (timeZone !== 'UTC' || models !== null || endUsers !== 'all' || action !== 'refuse' || max === 0n) return null;
    if (field !== 'daily_limit' || unit !== 'usd') return max;
    return max % 1_000_000_000n === 0n ? max / 1_000_000_000n : null;
  }

  /** The initial limits of every account. */
  addFreeWindows(accountId: number): void {
    const free = {
      ...plainLimit,
      accountId,
      scope: 'account',
      scopeId: accountId,
      models: ['*:free'],
      locked: true,
    } as const;
    this.#addLimit({ ...free, unit: 'requests', window: 'minute', max: 20n }, 'free_minute');
    this.#addLimit({ ...free, unit: 'requests', window: 'day', max: 200n }, 'free_day');
  }

  create(limit: NewLimit): number | 'not_found' {
    const { accountId, scope, scopeId } = limit;
    const key = this.#of.keys.find(({ id }) => id === scopeId);
    const exists =
      scope === 'account'
        ? scopeId === accountId && this.#of.accounts.has(accountId)
        : scope === 'group'
          ? this.#of.groups.find(scopeId, accountId) !== undefined
          : key?.accountId === accountId && key.state !== 'revoked';
    return exists ? this.#addLimit(limit, undefined) : 'not_found';
  }

  #addLimit(limit: NewLimit, field: ModelLimit['field']): number {
    const id = this.all.length + 1;
    this.all.push({ ...limit, id, field, removed: false });
    return id;
  }

  update(limitId: number, accountId: number | undefined, change: LimitChange): number | LimitRefusal {
    const limit = this.#own(limitId, accountId);
    if (typeof limit === 'string') return limit;
    Object.assign(limit, change);
    return limitId;
  }

  remove(limitId: number, accountId: number | undefined): number | LimitRefusal {
    const limit = this.#own(limitId, accountId);
    if (typeof limit === 'string') return limit;
    limit.removed = true;
    return limitId;
  }

  /** Removes the limits of a removed group. */
  removeGroup(groupId: number): void {
    for (const limit of this.all) if (limit.scope === 'group' && limit.scopeId === groupId) limit.removed = true;
  }

  #own(limitId: number, accountId: number | undefined): ModelLimit | LimitRefusal {
    const limit = this.all.find(each => each.id === limitId && !each.removed);
    if (limit === undefined || (accountId !== undefined && limit.accountId !== accountId)) return 'not_found';
    if (limit.field === 'free_minute' || limit.field === 'free_day') return 'fixed';
    return limit.locked && accountId !== undefined ? 'locked' : limit;
  }
}

/** The fields that all limits made by key fields have in common. */
const plainLimit = {
  timeZone: 'UTC',
  models: null,
  endUsers: 'all',
  action: 'refuse',
  raised: null,
  locked: false,
} as const;
const fieldWindows = { minute_limit: 'minute', daily_limit: 'day', monthly_limit: 'month' } as const;
