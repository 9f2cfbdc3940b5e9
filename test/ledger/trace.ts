import fc from 'fast-check';
import type {
  FundsEstimate,
  KeySettings,
  LimitChange,
  LimitSettings,
  LimitUnit,
  LimitWindow,
  RecordState,
  TextEstimate,
  UsageBuckets,
} from '../../src/ledger/ledger.ts';
import type { PlanName, PlanPeriodName } from '../../src/ledger/plans.ts';

/** Random sequences of commands, to compare the ledger with its reference model. Many values are near limits, where mistakes are likely. */

/** How the clock moves before a step: by some ms, to an edge of a day, or to the next end of a plan's period. */
export type Move =
  | number
  | 'before midnight'
  | 'midnight'
  | 'after midnight'
  | 'before the period’s end'
  | 'the period’s end';

/** A command. `byAccount`: the account that sends it; undefined: the operator. */
export type Action =
  | {
      kind: 'admit';
      key: number;
      model: string;
      funds: FundsEstimate | undefined;
      id: 'new' | number;
      ttlMs?: number;
      /** Set if token limits count the request: by the tokens of `funds`, or, if it is free, by these. */
      text?: 'of the funds' | TextEstimate;
      requests?: number;
      endUser?: string;
    }
  | { kind: 'group'; account: number; parent: number | null; balance: bigint | null }
  | { kind: 'regroup'; group: number; byAccount: number | undefined; parent?: number | null; balance?: bigint | null }
  /** `isEmptied`: the keys and groups in the group are removed from it first. */
  | { kind: 'ungroup'; group: number; byAccount: number | undefined; isEmptied: boolean }
  | { kind: 'moveKey'; key: number; group: number | null }
  | { kind: 'rotate'; key: number; byAccount: number | undefined; overlapMs: number }
  | { kind: 'limit'; limit: TracedLimit }
  | { kind: 'relimit'; limit: number; byAccount: number | undefined; change: TracedChange }
  | { kind: 'unlimit'; limit: number; byAccount: number | undefined }
  /** `isAltered`: the repeat has another model, or other buckets with the same cost. */
  | { kind: 'repeat'; request: number; of: 'admit' | 'settle'; isAltered: boolean }
  | { kind: 'burst'; key: number; count: number }
  | { kind: 'extend'; request: number; outputTokens: number }
  | { kind: 'raise'; request: number; nanoUsd: bigint; ttlMs?: number }
  | { kind: 'settle'; request: number; usage: UsageBuckets; multiplier: number; state: RecordState }
  | { kind: 'charge'; request: number; nanoUsd: bigint }
  | { kind: 'void'; request: number; reason: 'rejected' | 'cancelled' }
  | { kind: 'update'; key: number; settings: KeySettings; ttlMs?: number | null }
  | { kind: 'setKeyState'; key: number; state: 'enabled' | 'disabled' | 'revoked' }
  | { kind: 'setMonthlyLimit'; key: number; limit: bigint | undefined }
  | { kind: 'credit'; account: number; amount: bigint }
  | { kind: 'start'; account: number; plan: PlanName; period: PlanPeriodName }
  | { kind: 'cancel'; account: number }
  | { kind: 'windows'; key: number; free: boolean }
  | { kind: 'failingCommand' }
  | { kind: 'restart' };

/** A temporary maximum, and for how many ms from now it applies; null: none. */
type TracedRaise = { readonly max: bigint; readonly inMs: number } | null;

/** A limit of an account, of one of its groups by its id, or of one of its keys by index (the keys are numbered as the run creates them). */
export interface TracedLimit extends Omit<LimitSettings, 'raised'> {
  readonly account: number;
  readonly key: number | undefined;
  readonly group: number | undefined;
  readonly unit: LimitUnit;
  readonly window: LimitWindow | null;
  readonly locked: boolean;
  readonly raised: TracedRaise;
}

export type TracedChange = Omit<LimitChange, 'raised'> & { readonly raised?: TracedRaise };

export interface Step {
  readonly move: Move;
  readonly action: Action;
  /** The commands since the last flush are sent in one batch, which the ledger writes as one transaction. */
  readonly flush: boolean;
}

/** A plan, and how long its periods are. */
export interface StartedPlan {
  readonly plan: PlanName;
  readonly period: PlanPeriodName;
}

/** A chain of nested groups, outermost first. `depths` has the group of each key of the account; 0: none. */
export interface GroupChain {
  readonly account: number;
  readonly balances: readonly (bigint | null)[];
  readonly depths: readonly number[];
}

export interface Trace {
  readonly start: string;
  /** The initial groups of one account; undefined: none. */
  readonly chain: GroupChain | undefined;
  readonly unit: 'dollars' | 'requests';
  /** How many free requests were admitted earlier on the day. */
  readonly freeBefore: number;
  /** The initial plans of the accounts. */
  readonly plans: readonly (StartedPlan | undefined)[];
  /** The keys' initial flags. */
  readonly flags: readonly { readonly useSubsFirst: boolean; readonly fallbackToPayg: boolean }[];
  readonly steps: readonly Step[];
}

const dollar = 1_000_000_000n;

const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom<Move[]>(0, 0, 0, 1, 10, 500) },
  { weight: 6, arbitrary: fc.constantFrom<Move[]>(999, 1000, 1001, 5000, 30_000, 59_000, 59_999, 60_000, 60_001) },
  { weight: 2, arbitrary: fc.constantFrom<Move[]>('before midnight', 'midnight', 'after midnight') },
  { weight: 1, arbitrary: fc.constantFrom<Move[]>('before the period’s end', 'the period’s end') },
  { weight: 1, arbitrary: fc.constantFrom<Move[]>(3_599_999, 3_600_000, 86_399_999, 86_400_000, 28 * 86_400_000) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Move[]>(-1, -999, -1000, -59_999, -60_000, -60_001, -3_600_000, -86_400_000),
  },
);

const money = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(0n, 1n, 2n, 999n, 1000n, 5000n, 100_000_000n) },
  { weight: 4, arbitrary: fc.constantFrom(dollar / 2n, dollar - 1n, dollar, dollar + 1n, 2n * dollar, 3n * dollar) },
  { weight: 2, arbitrary: fc.bigInt(0n, 3n * dollar) },
);

const tokens = fc.constantFrom(0, 1, 3, 16, 100, 1024);
const price = fc.constantFrom(0n, 1n, 333n, 1000n, 1500n, 4_000_000n, 1_000_000_000n, 100_000_000_000n);

const funds: fc.Arbitrary<FundsEstimate> = fc.record({
  inputTokens: tokens,
  inputNanoUsd: fc.oneof(money, fc.constantFrom(0n, 1n, 100n, 1000n, 100_000n)),
  outputPicoUsd: price,
  outputTokensMin: fc.constantFrom(0, 1, 16),
  outputTokensWanted: fc.constantFrom(16, 17, 100, 1024),
  plan: fc.constantFrom(true, true, true, true, false),
  freeDaily: fc.constantFrom(true, false, false),
});

const usage: fc.Arbitrary<UsageBuckets> = fc
  .record({
    input: tokens,
    cacheRead: fc.constantFrom(0, 0, 7),
    cacheWrite5m: fc.constantFrom(0, 0, 11),
    cacheWrite1h: fc.constantFrom(0, 0, 13),
    output: tokens,
    images: fc.constantFrom(0, 0, 1),
  })
  .map(buckets => ({ ...buckets, reasoning: Math.floor(buckets.output / 2) }));

const text: fc.Arbitrary<TextEstimate> = fc.record({
  inputTokens: tokens,
  outputTokensMin: fc.constantFrom(0, 1, 16),
  outputTokensWanted: fc.constantFrom(16, 17, 100, 1024),
});
const models = fc.constantFrom(
  null,
  null,
  null,
  ['acme/large'],
  ['acme/*'],
  ['*:free'],
  ['*/small*', 'acme/large'],
  [],
);
const timeZone = fc.constantFrom('UTC', 'UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata');
const endUsers = fc.constantFrom('all' as const, 'all' as const, 'each' as const);
const limitAction = fc.constantFrom('refuse' as const, 'refuse' as const, 'refuse' as const, 'alert' as const);
const raisedFor = fc.constantFrom(1, 1000, 60_000, 3_600_000, 86_400_000);
const counts = fc.constantFrom(0n, 1n, 2n, 3n, 5n);
const limitMax = (unit: LimitUnit): fc.Arbitrary<bigint> => {
  if (unit === 'usd') return money;
  return unit === 'tokens' ? fc.constantFrom(0n, 16n, 100n, 117n, 1000n, 1124n, 2048n, 3000n, 10_000n) : counts;
};
const calendar = fc.constantFrom<LimitWindow[]>('minute', 'minute', 'hour', 'day', 'day', 'week', 'month', 'total');
const groupId = fc.integer({ min: 1, max: 6 });
const limit: fc.Arbitrary<TracedLimit> = fc
  .constantFrom<LimitUnit[]>('usd', 'usd', 'requests', 'tokens', 'tokens', 'concurrent')
  .chain(unit =>
    fc.record({
      account: fc.constantFrom(1, 2),
      key: fc.option(fc.nat(4), { nil: undefined, freq: 2 }),
      group: fc.option(groupId, { nil: undefined, freq: 2 }),
      unit: fc.constant(unit),
      window: unit === 'concurrent' ? fc.constant(null) : calendar,
      timeZone,
      max: limitMax(unit),
      models,
      endUsers,
      action: limitAction,
      raised: fc.option(fc.record({ max: limitMax(unit), inMs: raisedFor }), { freq: 4 }),
      locked: fc.constantFrom(false, false, true),
    }),
  );
const limitChange: fc.Arbitrary<TracedChange> = fc
  .record(
    {
      max: fc.oneof(counts, money),
      timeZone,
      models,
      endUsers,
      action: limitAction,
      raised: fc.option(fc.record({ max: counts, inMs: raisedFor }), { freq: 2 }),
    },
    { requiredKeys: [] },
  )
  .map(change => ({ ...change }));
const changer = fc.constantFrom(1, 2, undefined, undefined);

const key = fc.nat(4);
const request = fc.nat(12);
const model = fc.constantFrom('acme/large', 'acme/large', 'acme/small', 'acme/small:free');
const ttlMs = fc.constantFrom(1, 1000, 60_000, 3_600_000);

const settings: fc.Arbitrary<KeySettings> = fc
  .record(
    {
      minuteLimit: fc.constantFrom(0, 0, 1, 2, 3, 5),
      dailyLimit: fc.constantFrom(0, 1, 2, 3),
      allowedModels: fc.constantFrom(null, null, ['acme/large'], []),
      balance: fc.oneof(fc.constant(null), money),
      useSubsFirst: fc.boolean(),
      fallbackToPayg: fc.constantFrom(true, true, false),
    },
    { requiredKeys: [] },
  )
  .map(all => ({ ...all }));

const startedPlan: fc.Arbitrary<StartedPlan> = fc.record({
  plan: fc.constantFrom<PlanName[]>('core', 'core_pro'),
  period: fc.constantFrom<PlanPeriodName[]>('biweekly', 'monthly'),
});
const flags = fc.record({ useSubsFirst: fc.boolean(), fallbackToPayg: fc.constantFrom(true, true, true, false) });

const chain: fc.Arbitrary<GroupChain> = fc.record({
  account: fc.constantFrom(1, 2),
  balances: fc.array(fc.constantFrom(null, null, 0n, 5000n, dollar / 2n), { minLength: 1, maxLength: 5 }),
  depths: fc.array(fc.nat(5), { minLength: 2, maxLength: 2 }),
});

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc
      .record({
        kind: fc.constant('admit' as const),
        key,
        model,
        funds: fc.option(funds, { nil: undefined, freq: 6 }),
        id: fc.oneof({ weight: 8, arbitrary: fc.constant('new' as const) }, { weight: 1, arbitrary: request }),
        ttlMs: fc.option(ttlMs, { nil: undefined, freq: 2 }),
        text: fc.oneof(fc.constant('of the funds' as const), fc.constant('of the funds' as const), text),
        endUser: fc.constantFrom(undefined, undefined, 'ann', 'ben'),
        requests: fc.constantFrom(1, 1, 2),
      })
      .map(({ ttlMs: ttl, endUser, ...rest }) => ({
        ...rest,
        ...(ttl === undefined ? {} : { ttlMs: ttl }),
        ...(endUser === undefined ? {} : { endUser }),
      })),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('group' as const),
      account: fc.constantFrom(1, 2, 1, 2, 9),
      parent: fc.option(groupId, { freq: 2 }),
      balance: fc.option(money, { freq: 2 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc
      .record(
        {
          kind: fc.constant('regroup' as const),
          group: groupId,
          byAccount: changer,
          parent: fc.option(groupId, { freq: 3 }),
          balance: fc.option(money, { freq: 3 }),
        },
        { requiredKeys: ['kind', 'group', 'byAccount'] },
      )
      .map(all => ({ ...all })),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('ungroup' as const),
      group: groupId,
      byAccount: changer,
      isEmptied: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('moveKey' as const), key, group: fc.option(groupId, { freq: 5 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('rotate' as const),
      key,
      byAccount: changer,
      overlapMs: fc.constantFrom(0, 0, 60_000),
    }),
  },
  { weight: 6, arbitrary: limit.map(of => ({ kind: 'limit' as const, limit: of })) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('relimit' as const),
      limit: fc.nat(12),
      byAccount: changer,
      change: limitChange,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('unlimit' as const), limit: fc.nat(12), byAccount: changer }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('repeat' as const),
      request,
      of: fc.constantFrom('admit' as const, 'settle' as const),
      isAltered: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('burst' as const), key, count: fc.constantFrom(1, 2, 19, 20, 21) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('extend' as const), request, outputTokens: tokens }) },
  {
    weight: 4,
    arbitrary: fc
      .record({
        kind: fc.constant('raise' as const),
        request,
        nanoUsd: money,
        ttlMs: fc.option(ttlMs, { nil: undefined }),
      })
      .map(({ ttlMs: ttl, ...rest }) => (ttl === undefined ? rest : { ...rest, ttlMs: ttl })),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      request,
      usage,
      multiplier: fc.constantFrom(500, 1000, 1000, 2000),
      state: fc.constantFrom<RecordState[]>('completed', 'incomplete', 'client_aborted', 'upstream_failed'),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('charge' as const), request, nanoUsd: money }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('void' as const),
      request,
      reason: fc.constantFrom('rejected' as const, 'cancelled' as const),
    }),
  },
  {
    weight: 8,
    arbitrary: fc
      .record({
        kind: fc.constant('update' as const),
        key,
        settings,
        ttlMs: fc.constantFrom(undefined, undefined, undefined, undefined, null, null, -1, 0, 1, 1000, 60_000),
      })
      .map(({ ttlMs: ttl, ...rest }) => (ttl === undefined ? rest : { ...rest, ttlMs: ttl })),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('setKeyState' as const),
      key,
      state: fc.constantFrom('enabled' as const, 'disabled' as const, 'enabled' as const, 'revoked' as const),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('setMonthlyLimit' as const),
      key,
      limit: fc.option(money, { nil: undefined }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('credit' as const),
      account: fc.constantFrom(1, 2, 9),
      amount: fc.oneof(
        money,
        money.map(amount => -amount),
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc
      .record({ kind: fc.constant('start' as const), account: fc.constantFrom(1, 2, 1, 2, 9), of: startedPlan })
      .map(({ of, ...rest }) => ({ ...rest, ...of })),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), account: fc.constantFrom(1, 2) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('windows' as const), key, free: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'failingCommand' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
);

/** Traces of up to `stepsMax` steps. */
export function traces(stepsMax: number): fc.Arbitrary<Trace> {
  return fc.record({
    start: fc.constantFrom(
      '2026-05-10T12:00:00.000Z',
      '2026-01-31T23:59:30.000Z',
      '2028-02-28T23:59:59.000Z',
      '2028-02-29T12:00:00.000Z',
      '2026-12-31T23:59:59.999Z',
      // Shortly before daylight saving time starts and ends in Europe, and ends in America.
      '2026-03-28T22:59:59.000Z',
      '2026-10-24T21:59:59.000Z',
      '2026-11-01T05:59:00.000Z',
    ),
    chain: fc.option(chain, { nil: undefined, freq: 1 }),
    unit: fc.constantFrom('dollars' as const, 'dollars' as const, 'requests' as const),
    freeBefore: fc.constantFrom(0, 0, 0, 0, 0, 199),
    plans: fc.array(fc.option(startedPlan, { nil: undefined, freq: 5 }), { minLength: 2, maxLength: 2 }),
    flags: fc.array(flags, { minLength: 4, maxLength: 4 }),
    steps: fc.array(fc.record({ move, action, flush: fc.boolean() }), { maxLength: stepsMax, size: 'max' }),
  });
}
