/**
 * Runs the same commands against the rules and against the engine, and compares their replies and the use of limits. Many limits apply to the commands: the rules count each limit separately, the engine counts
 * some limits jointly (hence the names).
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { LimitScope, LimitUnit, LimitWindow, NewLimit } from '../../src/ledger/ledger.ts';
import type { AdminCall } from '../../src/ledger/rules/administration.ts';
import { makeHash, plans, settleAmount } from './fixture.ts';
import { type Command, type Subject, subjects, type TimedCommand } from './subjects.ts';

const scopes: readonly (readonly [LimitScope, number])[] = [
  ['key', 1],
  ['key', 2],
  ['group', 1],
  ['account', 1],
];
const shapes: readonly (readonly [LimitUnit, LimitWindow | null])[] = [
  ['requests', 'hour'],
  ['requests', 'day'],
  ['requests', 'total'],
  ['tokens', 'hour'],
  ['tokens', 'month'],
  ['usd', 'hour'],
  ['usd', 'week'],
  ['concurrent', null],
  ['requests', 'minute'],
];

const limit = fc.record({
  scope: fc.constantFrom(...scopes),
  shape: fc.constantFrom(...shapes),
  /** The maximum, in multiples of `limitStep`. */
  times: fc.integer({ min: 0, max: 12 }),
  timeZone: fc.constantFrom('UTC', 'Asia/Kolkata'),
  models: fc.constantFrom(null, null, null, ['acme/other']),
  endUsers: fc.constantFrom('all' as const, 'all' as const, 'each' as const),
  action: fc.constantFrom('refuse' as const, 'refuse' as const, 'alert' as const),
  raised: fc.option(fc.record({ times: fc.integer({ min: 0, max: 20 }), minutes: fc.integer({ min: 1, max: 90 }) }), {
    freq: 4,
  }),
});
type SomeLimit = typeof limit extends fc.Arbitrary<infer L> ? L : never;

const request = fc.record({
  kind: fc.constant('admit' as const),
  key: fc.integer({ min: 1, max: 2 }),
  text: fc.boolean(),
  model: fc.constantFrom('acme/large', 'acme/large', 'acme/other'),
  outputMin: fc.constantFrom(20, 20, 300),
  cost: fc.bigInt(1n, 3000n),
  endUser: fc.constantFrom(undefined, undefined, 'ann'),
});
const nth = fc.nat(40);
const step = fc.oneof(
  { weight: 8, arbitrary: request },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('settle' as const), nth, cost: fc.bigInt(0n, 3000n) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('void' as const), nth }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('extend' as const), nth, tokens: fc.integer({ min: 1, max: 200 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('limit' as const), limit }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('updateLimit' as const), nth, limit }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('deleteLimit' as const), nth }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'compare' as const,
        'invalidSettle' as const,
        'restart' as const,
        'verifyAndRestart' as const,
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('webhook' as const), on: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(1, 30_000, 1_700_000, -40_000, 86_400_000),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** The unit in which a maximum is varied. */
const limitStep: Readonly<Record<LimitUnit, bigint>> = { requests: 1n, tokens: 150n, usd: 2000n, concurrent: 1n };

function toLimit(
  { scope: [scope, scopeId], shape: [unit, window], times, raised: raise, ...rest }: SomeLimit,
  nowMs: number,
): NewLimit {
  const max = BigInt(times) * limitStep[unit];
  const raised = raise && { max: BigInt(raise.times) * limitStep[unit], untilMs: nowMs + raise.minutes * 60_000 };
  return { accountId: 1, scope, scopeId, unit, window, max, locked: false, raised, ...rest };
}

/** Sends the same batches of commands to the rules and to the engine. */
class Pair {
  readonly #subjects: readonly Subject[];
  #batch: TimedCommand[] = [];
  #seq = 0;
  nowMs = Date.parse('2026-03-29T22:10:00Z');
  lastId = 0;
  /** The id of the newest limit. The account begins with two limits, those of free requests. */
  lastLimitId: number = 2;

  constructor(opened: readonly Subject[]) {
    this.#subjects = opened;
  }

  async send(command: Command): Promise<void> {
    this.#batch.push({ ...command, nowMs: this.nowMs, seq: ++this.#seq });
    if (this.#seq % 3 === 0) await this.flush();
  }

  administer<N extends AdminCall['name']>(name: N, command: Extract<AdminCall, { name: N }>['command']): Promise<void> {
    return this.send({ kind: 'admin', call: { id: `admin ${this.#seq}`, name, command } as AdminCall });
  }

  async flush(): Promise<void> {
    const replies = await this.#each(subject => subject.run(this.#batch));
    assert.deepEqual(replies[1], replies[0]);
    this.#batch = [];
  }

  async compare(): Promise<void> {
    await this.flush();
    for (let id = 1; id <= this.lastLimitId; id++) {
      const [plain, joint] = await this.#each(subject => subject.limit(id, this.nowMs));
      const sum = joint && joint.used + joint.held;
      if (plain !== undefined) assert.deepEqual([id, sum], [id, plain.used + plain.held]);
    }
  }

  /** Restarts both as after a crash, without closing them first. */
  async restart(): Promise<void> {
    await this.flush();
    const [plain, joint] = await this.#each(subject => subject.restart(this.nowMs));
    assert.equal(joint, plain);
  }

  /** Makes the engine write its pending changes, and checks the invariants. */
  async verify(): Promise<void> {
    await this.flush();
    assert.deepEqual(await this.#each(subject => subject.violations()), [[], []]);
  }

  async close(): Promise<void> {
    await this.compare();
    await this.verify();
    await this.#each(subject => subject.close());
  }

  #each<T>(of: (subject: Subject) => T | Promise<T>): Promise<T[]> {
    return Promise.all(this.#subjects.map(of));
  }
}

async function setUp(pair: Pair, limits: readonly SomeLimit[]): Promise<void> {
  await pair.administer('createAccount', { name: 'one', balance: 100_000n });
  await pair.administer('createGroup', { accountId: 1, settings: { name: 'team' } });
  for (const key of [1, 2]) {
    await pair.administer('createKey', {
      accountId: 1,
      hash: makeHash(`${key}`),
      masked: '',
      settings: { groupId: 1 },
    });
  }
  for (const each of limits) await addLimit(pair, each);
}

async function addLimit(pair: Pair, some: SomeLimit): Promise<void> {
  await pair.administer('createLimit', toLimit(some, pair.nowMs));
  pair.lastLimitId++;
}

async function runStep(pair: Pair, next: Step): Promise<void> {
  const id = 'nth' in next ? Math.max(1, pair.lastId - next.nth) : 0;
  switch (next.kind) {
    case 'admit': {
      const text = { inputTokens: 50, outputTokensMin: next.outputMin, outputTokensWanted: 400 };
      const funds = { ...text, inputNanoUsd: next.cost, outputPicoUsd: 10_000n, plan: false };
      const command = {
        id: ++pair.lastId,
        requestId: `req_${pair.lastId}`,
        key: { id: next.key },
        model: next.model,
        free: false,
        funds,
      };
      const endUser = next.endUser === undefined ? {} : { endUser: next.endUser };
      return pair.send({ kind: 'admit', command: { ...command, ...endUser, ...(next.text ? { text } : {}) } });
    }
    case 'settle':
      return pair.send({ kind: 'settle', command: settleAmount(id, next.cost) });
    case 'void':
      return pair.send({ kind: 'void', id, reason: 'rejected' });
    case 'extend':
      return pair.send({ kind: 'extend', command: { id, outputTokens: next.tokens } });
    case 'limit':
      return addLimit(pair, next.limit);
    case 'updateLimit': {
      const { max, models, endUsers, timeZone, action, raised } = toLimit(next.limit, pair.nowMs);
      const change = { max, action, raised, ...(next.nth % 2 === 0 ? {} : { models, endUsers, timeZone }) };
      return pair.administer('updateLimit', { limitId: 3 + (next.nth % 12), accountId: 1, change });
    }
    case 'deleteLimit':
      return pair.administer('deleteLimit', { limitId: 3 + (next.nth % 12), accountId: 1 });
    case 'compare':
      await pair.send({ kind: 'windows', keyId: 1, free: false });
      return pair.compare();
    case 'invalidSettle':
      return pair.send({ kind: 'settle', command: settleAmount(pair.lastId, -1n) });
    case 'restart':
      return pair.restart();
    case 'verifyAndRestart':
      await pair.verify();
      return pair.restart();
    case 'webhook':
      if (next.on)
        await pair.administer('createWebhook', {
          accountId: 1,
          url: 'https://a.example/',
          events: ['limit.threshold'],
          secret: '',
          disabled: false,
        });
      else await pair.administer('deleteWebhook', { accountId: 1, webhookId: 1 });
      return undefined;
    case 'wait':
      pair.nowMs += next.ms;
  }
}

/** Returns the property for the modules in `src`: the rules and the engine give the same replies and count the same use of limits. */
export async function jointProperty(src: string): Promise<fc.IAsyncProperty<[SomeLimit[], Step[]]>> {
  const [openPlain, openJoint] = [await subjects.rules(src), await subjects.engine(src)];
  const limits = fc.array(limit, { minLength: 4, maxLength: 16 });
  return fc.asyncProperty(limits, fc.array(step, { minLength: 20, maxLength: 60 }), async (made, steps) => {
    const pair = new Pair([openPlain(plans, 'dollars'), openJoint(plans, 'dollars')]);
    await setUp(pair, made);
    for (const each of steps) await runStep(pair, each);
    await pair.close();
  });
}
