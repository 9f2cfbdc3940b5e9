import assert from 'node:assert/strict';
import type { ExtendCommand, Raise, SettleCommand, TextEstimate } from '../../src/ledger/ledger.ts';
import type { Plans } from '../../src/ledger/plans.ts';
import type { AdminCommands, AdminCall } from '../../src/ledger/rules/administration.ts';
import { makeHash } from './fixture.ts';
import { Model } from './model.ts';
import type { ModelKey } from './model-types.ts';
import type { Command, OpenSubject, Subject, TimedCommand } from './subjects.ts';
import { usedNow } from './model-limits.ts';
import type { Action, GroupChain, Move, Trace, TracedLimit } from './trace.ts';

/** Runs a trace through a ledger in batches and through the model step by step, and compares all replies and stored data. */

const freeModel = 'acme/tiny:free';
const keyNames = ['one', 'two', 'three', 'four'];
const startBalance = 3_000_000_000n;
const prices = {
  input: 1500n,
  cacheRead: 333n,
  cacheWrite5m: null,
  cacheWrite1h: 2_000_000n,
  output: 4_000_000n,
  image: 500_000_000_000n,
};

/** Small plans that are soon used up: one that costs nothing, and one with a discount for all models and tokens for one model. */
const plans: Plans = {
  core: {
    biweekly: { priceNanoUsd: 500_000_000n, tokens: 1100 },
    monthly: { priceNanoUsd: 0n, tokens: 150 },
    freeDailyRequests: 1,
    discountPermille: 0,
    models: null,
  },
  core_pro: {
    biweekly: { priceNanoUsd: 1_000_000_000n, tokens: 40 },
    monthly: { priceNanoUsd: 1_000_000_001n, tokens: 3000 },
    freeDailyRequests: 2,
    discountPermille: 333,
    models: ['acme/large'],
  },
};

class Run {
  readonly #trace: Trace;
  readonly #subject: Subject;
  readonly #model: Model;
  #now: number;
  #seq = 0;
  #nextId = 1;
  #batch: { command: TimedCommand; expected: unknown }[] = [];
  readonly #admits = new Map<number, { command: Admission; key: ModelKey }>();
  readonly #settles = new Map<number, SettleCommand>();
  steps = 0;

  constructor(open: OpenSubject, trace: Trace) {
    this.#trace = trace;
    this.#now = Date.parse(trace.start);
    this.#model = new Model(trace.unit, plans);
    this.#subject = open(plans, trace.unit);
  }

  async run(): Promise<void> {
    try {
      await this.#setUp();
      for (const { move, action, flush } of this.#trace.steps) {
        this.#move(move);
        this.#step(action);
        if (action.kind === 'restart') await this.#restart();
        if (flush) await this.#flush();
      }
      await this.#flush();
      await this.#compareState();
      assert.deepEqual(await this.#subject.violations(), []);
    } finally {
      await this.#subject.close();
    }
  }

  /** Makes two accounts with two keys each; the fourth key has a separate balance. */
  async #setUp(): Promise<void> {
    for (const accountId of [1, 2]) {
      this.#model.addAccount(accountId, startBalance);
      this.#admin('createAccount', { name: `account ${accountId}`, balance: startBalance }, accountId);
    }
    for (const [index, name] of keyNames.entries()) this.#createKey(index + 1, (index % 2) + 1, name);
    const fourth = this.#key(3);
    this.#model.updateKey(fourth, { balance: 1_000_000_000n });
    this.#admin('updateKey', { keyId: 4, accountId: 2, settings: { balance: 1_000_000_000n } }, 4);
    for (const [index, { useSubsFirst, fallbackToPayg }] of this.#trace.flags.entries()) {
      this.#step({ kind: 'update', key: index, settings: { useSubsFirst, fallbackToPayg } });
    }
    const { chain } = this.#trace;
    if (chain !== undefined) this.#nest(chain);
    const now = this.#now;
    this.#now -= 3_600_000;
    for (let n = 0; n < this.#trace.freeBefore; n++) {
      if (n % 20 === 0) this.#now -= 60_000;
      this.#admit(this.#key(0), { kind: 'admit', key: 0, model: freeModel, funds: undefined, id: 'new' });
    }
    this.#now = now;
    for (const [index, plan] of this.#trace.plans.entries()) {
      if (plan !== undefined) this.#step({ kind: 'start', account: index + 1, ...plan });
    }
    await this.#flush();
  }

  /** Makes nested groups, with ids from 1, and puts the account's keys into them. */
  #nest({ account, balances, depths }: GroupChain): void {
    for (const [above, balance] of balances.entries()) {
      this.#step({ kind: 'group', account, parent: above === 0 ? null : above, balance });
    }
    for (const [nth, depth] of depths.entries()) {
      const group = Math.min(depth, balances.length);
      this.#step({ kind: 'moveKey', key: 2 * nth + account - 1, group: group === 0 ? null : group });
    }
  }

  /** Removes all keys and groups from a group. */
  #empty(groupId: number): void {
    const { keys, groups } = this.#model;
    for (const key of keys) {
      if (key.groupId === groupId && key.state !== 'revoked')
        this.#step({ kind: 'moveKey', key: key.id - 1, group: null });
    }
    for (const group of groups.all) {
      if (group.parent !== groupId || group.removed) continue;
      this.#step({ kind: 'regroup', group: group.id, byAccount: undefined, parent: null });
    }
  }

  #createKey(id: number, accountId: number, name: string): void {
    this.#model.keys.push({
      id,
      accountId,
      name,
      state: 'enabled',
      groupId: null,
      allowedModels: null,
      balance: null,
      useSubsFirst: true,
      fallbackToPayg: true,
      expiresAtMs: null,
    });
    this.#admin('createKey', { accountId, hash: makeHash(name), masked: name, settings: {} }, id);
  }

  #move(move: Move): void {
    if (typeof move === 'number') this.#now = Math.max(this.#now + move, 86_400_000);
    else if (move === 'the period’s end' || move === 'before the period’s end') {
      const ends = [...this.#model.accounts.values()].flatMap(({ plan }) =>
        plan === undefined ? [] : [plan.period.endMs],
      );
      if (ends.length > 0) this.#now = Math.min(...ends) - (move === 'the period’s end' ? 0 : 1);
    } else {
      const midnight = (Math.floor(this.#now / 86_400_000) + 1) * 86_400_000;
      this.#now = midnight + { 'before midnight': -1, midnight: 0, 'after midnight': 1 }[move];
    }
  }

  /** Does a step; for a restart, only what precedes it. */
  #step(action: Action): void {
    this.steps++;
    switch (action.kind) {
      case 'admit':
        return this.#admit(this.#key(action.key), action);
      case 'repeat':
        return action.of === 'admit' ? this.#repeatAdmit(action) : this.#repeatSettle(action);
      case 'burst':
        for (let n = 0; n < action.count; n++) {
          this.#admit(this.#key(action.key), {
            kind: 'admit',
            key: action.key,
            model: freeModel,
            funds: undefined,
            id: 'new',
          });
        }
        return;
      case 'extend':
        return this.#extend({ id: this.#id(action.request), outputTokens: action.outputTokens });
      case 'raise': {
        const expiry = action.ttlMs === undefined ? {} : { expiresAtMs: this.#now + action.ttlMs };
        return this.#extend({ id: this.#id(action.request), nanoUsd: action.nanoUsd, ...expiry });
      }
      case 'settle':
        return this.#settle(action.request, {
          usage: action.usage,
          multiplierPermille: action.multiplier,
          state: action.state,
        });
      case 'charge':
        return this.#settle(action.request, { costNanoUsd: action.nanoUsd });
      case 'void': {
        const id = this.#id(action.request);
        return this.#expect(
          { kind: 'void', id, reason: action.reason },
          this.#model.void(id, action.reason, this.#now),
        );
      }
      case 'windows': {
        const key = this.#key(action.key);
        this.#model.sweep(this.#now);
        return this.#expect(
          { kind: 'windows', keyId: key.id, free: action.free },
          this.#model.windows(key, action.free, this.#now),
        );
      }
      case 'restart':
        return;
      default:
        return this.#administer(action);
    }
  }

  #administer(
    action: Extract<
      Action,
      {
        kind:
          | 'update'
          | 'setKeyState'
          | 'setMonthlyLimit'
          | 'credit'
          | 'start'
          | 'cancel'
          | 'failingCommand'
          | 'limit'
          | 'relimit'
          | 'unlimit'
          | 'group'
          | 'regroup'
          | 'ungroup'
          | 'moveKey'
          | 'rotate';
      }
    >,
  ): void {
    this.#model.sweep(this.#now);
    switch (action.kind) {
      case 'update': {
        const { id, accountId } = this.#key(action.key);
        const { ttlMs } = action;
        const expiry = ttlMs === undefined ? {} : { expiresAtMs: ttlMs === null ? null : this.#now + ttlMs };
        const settings = { ...action.settings, ...expiry };
        const reply = this.#model.updateKey(this.#key(action.key), settings);
        return this.#admin('updateKey', { keyId: id, accountId, settings }, reply === 'ok' ? id : reply);
      }
      case 'setKeyState': {
        const { id, accountId } = this.#key(action.key);
        const reply = this.#model.setKeyState(this.#key(action.key), action.state, this.#now);
        return this.#admin('setKeyState', { keyId: id, accountId, state: action.state }, reply === 'ok' ? id : reply);
      }
      case 'setMonthlyLimit': {
        const key = this.#key(action.key);
        if (key.state !== 'revoked') this.#model.limits.setField(key, 'monthly_limit', action.limit ?? 0n);
        const reply = key.state === 'revoked' ? 'not_found' : key.id;
        return this.#admin('setMonthlyLimit', { keyId: key.id, limit: action.limit }, reply);
      }
      case 'credit': {
        const { account: accountId, amount } = action;
        const reply = this.#model.addCredit(accountId, amount);
        return this.#admin('addCredit', { accountId, amount, note: '' }, reply === 'ok' ? accountId : reply);
      }
      case 'start': {
        const { account: accountId, plan, period } = action;
        const reply = this.#model.startSubscription(accountId, plan, period, this.#now);
        return this.#admin('startSubscription', { accountId, plan, period }, reply === 'ok' ? accountId : reply);
      }
      case 'cancel': {
        const { account: accountId } = action;
        const reply = this.#model.cancelSubscription(accountId);
        return this.#admin('cancelSubscription', { accountId }, reply === 'ok' ? accountId : reply);
      }
      case 'group': {
        const { account: accountId, parent: parentId, balance } = action;
        const settings = { name: 'group', parentId, balance, tags: { level: String(parentId) } };
        return this.#admin('createGroup', { accountId, settings }, this.#model.groups.create(accountId, settings));
      }
      case 'regroup': {
        const { group: groupId, byAccount: accountId, parent: parentId, balance } = action;
        const settings = {
          ...(parentId === undefined ? {} : { parentId }),
          ...(balance === undefined ? {} : { balance }),
        };
        const reply = this.#model.groups.update(groupId, accountId, settings);
        return this.#admin('updateGroup', { groupId, accountId, settings }, reply);
      }
      case 'ungroup': {
        const { group: groupId, byAccount: accountId } = action;
        if (action.isEmptied) this.#empty(groupId);
        const reply = this.#model.groups.remove(groupId, accountId);
        if (typeof reply === 'number') this.#model.limits.removeGroup(groupId);
        return this.#admin('deleteGroup', { groupId, accountId }, reply);
      }
      case 'moveKey':
        return this.#step({ kind: 'update', key: action.key, settings: { groupId: action.group } });
      case 'rotate': {
        const { id: keyId, accountId: owner, state } = this.#key(action.key);
        const { byAccount: accountId } = action;
        // The hash of the first secret stays in use: see `failingCommand`.
        const overlapMs = keyId === 1 ? 60_000 : action.overlapMs;
        const isOthers = state === 'revoked' || (accountId !== undefined && accountId !== owner);
        const secret = { hash: makeHash(`rotated ${this.#seq}`), masked: `rotated ${this.#seq}`, overlapMs };
        return this.#admin('rotateKey', { keyId, accountId, ...secret }, isOthers ? 'not_found' : keyId);
      }
      case 'limit': {
        const { account: accountId, key: index, group, raised, ...settings } = action.limit;
        const key = index === undefined ? undefined : this.#key(index);
        const scope = key !== undefined ? 'key' : group !== undefined ? 'group' : 'account';
        const of = { scope, scopeId: key?.id ?? group ?? accountId } as const;
        const limit = { ...settings, ...of, accountId, raised: this.#raise(raised) };
        return this.#admin('createLimit', limit, this.#model.limits.create(limit));
      }
      case 'relimit': {
        const { raised, ...settings } = action.change;
        const change = raised === undefined ? settings : { ...settings, raised: this.#raise(raised) };
        const { limit: limitId, byAccount: accountId } = action;
        const reply = this.#model.limits.update(limitId, accountId, change);
        return this.#admin('updateLimit', { limitId, accountId, change }, reply);
      }
      case 'unlimit': {
        const { limit: limitId, byAccount: accountId } = action;
        return this.#admin('deleteLimit', { limitId, accountId }, this.#model.limits.remove(limitId, accountId));
      }
      case 'failingCommand':
        // A second key with the same hash violates a constraint, so this command fails, and no other of its batch.
        return this.#admin('createKey', { accountId: 1, hash: makeHash('one'), masked: '', settings: {} }, failed);
    }
  }

  #raise(raised: TracedLimit['raised']): Raise | null {
    return raised === null ? null : { max: raised.max, untilMs: this.#now + raised.inMs };
  }

  #admit(key: ModelKey, action: Extract<Action, { kind: 'admit' }>): void {
    const free = action.model.endsWith(':free');
    const { funds, endUser, requests } = action;
    const text = action.text === 'of the funds' ? funds : action.text;
    const command: Admission = {
      id: action.id === 'new' ? this.#nextId++ : this.#id(action.id),
      requestId: 'req',
      key: action.key % 2 === 0 ? { id: key.id } : { id: key.id, accountId: key.accountId },
      model: action.model,
      free,
      funds,
      ...(requests === undefined ? {} : { requests }),
      ...(endUser === undefined ? {} : { endUser }),
      ...(text === undefined ? {} : { text: pickText(funds ?? text) }),
      ...(action.ttlMs === undefined ? {} : { expiresAtMs: this.#now + action.ttlMs }),
    };
    this.#sendAdmit(command, key);
  }

  #sendAdmit(command: Admission, key: ModelKey): void {
    if (this.#hasOtherVoided(command, key)) return;
    this.#admits.set(command.id, { command, key });
    const expected = this.#model.admit(command, key, this.#now);
    this.#expect({ kind: 'admit', command }, expected);
  }

  /** Returns whether the gateway would never send this: it does not use the id of a voided request for another one, and `verify` reports such an id. */
  #hasOtherVoided({ id, model, expiresAtMs }: Admission, key: ModelKey): boolean {
    if (expiresAtMs !== undefined) return false;
    // The model is not swept here, because possibly nothing is sent, and then the ledger would not be swept.
    const isVoided = ({ state, expiresAtMs: endMs = Infinity }: Model['requests'][number]): boolean =>
      state === 'voided' || (state === 'live' && endMs <= this.#now);
    return this.#model.requests.some(
      request => request.id === id && isVoided(request) && (request.key !== key || request.model !== model),
    );
  }

  /** Sends the same admit again, or the same with another model. */
  #repeatAdmit({ request, isAltered }: Extract<Action, { kind: 'repeat' }>): void {
    const sent = this.#admits.get(this.#id(request));
    if (sent === undefined) return;
    const { command, key } = sent;
    this.#sendAdmit(isAltered ? { ...command, model: 'acme/other' } : command, key);
  }

  /** Sends the same settle again, or one with the same cost whose tokens are in another bucket with the same price. */
  #repeatSettle({ request, isAltered }: Extract<Action, { kind: 'repeat' }>): void {
    const command = this.#settles.get(this.#id(request));
    if (command === undefined) return;
    const { usage } = command;
    const moved = { ...usage, input: usage.cacheWrite5m, cacheWrite5m: usage.input };
    this.#sendSettle(isAltered ? { ...command, usage: moved } : command);
  }

  #extend(command: ExtendCommand): void {
    this.#expect({ kind: 'extend', command }, this.#model.extend(command, this.#now));
  }

  #settle(request: number, change: Partial<SettleCommand>): void {
    const command: SettleCommand = {
      id: this.#id(request),
      state: 'completed',
      usage: { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0, images: 0 },
      usageSource: 'reported',
      serviceTier: 'default',
      latencyMs: 10,
      firstEventMs: 5,
      provider: 'local',
      attempts: 1,
      prices,
      multiplierPermille: 1000,
      ...change,
    };
    this.#sendSettle(command);
  }

  #sendSettle(command: SettleCommand): void {
    this.#settles.set(command.id, command);
    const expected = this.#model.settle(command, this.#now);
    this.#expect({ kind: 'settle', command }, expected);
  }

  async #restart(): Promise<void> {
    await this.#flush();
    assert.equal(await this.#subject.restart(this.#now), this.#model.restart(this.#now));
    await this.#compareState();
  }

  #admin<K extends keyof AdminCommands>(name: K, command: AdminCommands[K], expected: unknown): void {
    const call = { id: `admin ${this.#seq}`, name, command } as AdminCall;
    this.#expect({ kind: 'admin', call }, expected);
  }

  #expect(command: Command, expected: unknown): void {
    this.#batch.push({ command: { ...command, nowMs: this.#now, seq: this.#seq++ }, expected });
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    const replies = await this.#subject.run(batch.map(({ command }) => command));
    for (const [index, { command, expected }] of batch.entries()) {
      assert.deepEqual(replies[index], expected, `${command.kind} of ${JSON.stringify(command, printable)}`);
    }
  }

  /** Checks that operators and accounts see the same as in the model. */
  async #compareState(): Promise<void> {
    for (const key of this.#model.keys) this.#step({ kind: 'windows', key: key.id - 1, free: true });
    await this.#flush();
    await this.#compareLimits();
    const reads = this.#subject;
    for (const [accountId, { balance }] of this.#model.accounts) {
      const row = await reads.account(accountId);
      const held = this.#model.held({ account: accountId });
      assert.deepEqual([row?.balance, row?.held], [balance, held], `account ${accountId}`);
      const subscription = this.#model.subscription(accountId, this.#now);
      assert.deepEqual(await reads.subscription(accountId, this.#now), subscription, `plan of account ${accountId}`);
    }
    for (const { id, balance, removed } of this.#model.groups.all.filter(group => !group.removed)) {
      const row = await reads.group(id);
      const due = removed ? undefined : [balance, this.#model.held({ group: id })];
      assert.deepEqual(row && [row.balance, row.held], due, `group ${id}`);
    }
    for (const key of this.#model.keys) {
      const row = await reads.key(key.id, this.#now);
      const own = this.#model.requests.filter(request => request.key === key);
      const toDay = (ms: number): number => Math.floor(ms / 86_400_000);
      const today = own.filter(request => toDay(request.admittedAtMs) === toDay(this.#now));
      assert.deepEqual(
        [row?.balance, row?.usageToday, row?.usageMinute],
        [
          key.balance,
          today.reduce((sum, request) => sum + request.cost, 0n),
          own.filter(request => request.admittedAtMs > this.#now - 60_000).length,
        ],
        `key ${key.id}`,
      );
    }
  }

  /** Checks that limits have the use of their requests (of the end user with the most use), and that key fields have the values of their limits. */
  async #compareLimits(): Promise<void> {
    const { limits, requests, keys } = this.#model;
    for (const limit of limits.all.filter(({ removed }) => !removed)) {
      const shown = await this.#subject.limit(limit.id, this.#now);
      const key = limit.scope === 'key' ? keys.find(({ id }) => id === limit.scopeId) : undefined;
      // The engine does not list limits of revoked keys.
      if (key?.state === 'revoked' && shown === undefined) continue;
      const users = limit.endUsers === 'each' ? [undefined, ...requests.map(({ endUser }) => endUser)] : [undefined];
      const used = users.map(user => usedNow(limit, limits.counted(limit, user), this.#now));
      const due = used.reduce((most, each) => (each > most ? each : most), 0n);
      // A window that was not read after the clock was set has no use.
      if (limit.models !== null && (shown?.used ?? 0n) + (shown?.held ?? 0n) === 0n) continue;
      assert.equal((shown?.used ?? 0n) + (shown?.held ?? 0n), due, `limit ${limit.id}`);
    }
    for (const key of keys) {
      const fields = await this.#subject.fields(key.id, this.#now);
      if (fields === undefined) continue;
      const [minute, daily, monthly] = (['minute_limit', 'daily_limit', 'monthly_limit'] as const).map(field =>
        limits.readField(key, field),
      );
      const count = (value: bigint | null | undefined): number | null => (value === null ? null : Number(value ?? 0n));
      assert.deepEqual(fields, [count(minute), count(daily), monthly === 0n ? undefined : (monthly ?? undefined)]);
    }
  }

  #key(index: number): ModelKey {
    const key = this.#model.keys[index % this.#model.keys.length];
    assert(key !== undefined);
    return key;
  }

  /** Returns the id of one of the last requests; an unused id if there are fewer. */
  #id(back: number): number {
    return this.#model.requests.at(-1 - back)?.id ?? 1_000_000;
  }
}

function pickText({ inputTokens, outputTokensMin, outputTokensWanted }: TextEstimate): TextEstimate {
  return { inputTokens, outputTokensMin, outputTokensWanted };
}

/** An admit that has the key's id instead of its hash. */
type Admission = Extract<Command, { kind: 'admit' }>['command'];

const failed = 'failed';

function printable(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}

/** Runs a trace. Throws if ledger and model differ or an invariant is violated; returns the number of steps. */
export async function runTrace(open: OpenSubject, trace: Trace): Promise<number> {
  const run = new Run(open, trace);
  await run.run();
  return run.steps;
}
