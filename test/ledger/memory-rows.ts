import type { AuditRow, Tags } from '../../src/ledger/ledger.ts';
import type {
  Entry,
  Group,
  Hold,
  Key,
  Limit,
  LimitUse,
  OldSecret,
  PlanPeriod,
  Rows,
  SumChange,
  Table,
  Tally,
  TallySpan,
  Usage,
  Webhook,
  WebhookEvent,
} from '../../src/ledger/rows.ts';

/** A simple implementation of the rows in memory, to test the rules without an engine. */

class MemoryTable<R, K extends readonly (number | string)[]> implements Table<R, K> {
  rows = new Map<string, R>();
  readonly #key: (row: R) => (number | string)[];

  constructor(key: (row: R) => (number | string)[]) {
    this.#key = key;
  }

  get(...key: K): R | undefined {
    return this.rows.get(key.join());
  }

  put(row: R): void {
    this.rows.set(this.#key(row).join(), row);
  }

  remove(...key: K): void {
    this.rows.delete(key.join());
  }

  all(): R[] {
    return [...this.rows.values()];
  }
}

const byId = (row: { readonly id: number }): number[] => [row.id];
const byDay = (row: { readonly accountId: number; readonly day: number }): number[] => [row.accountId, row.day];
const byNumber = (row: { readonly accountId: number; readonly number: number }): number[] => [
  row.accountId,
  row.number,
];

type Row<N extends keyof Rows> = Rows[N] extends Pick<Table<infer R, never[]>, 'put'> ? R : never;

type Admitted = Pick<
  Row<'voided'>,
  'accountId' | 'keyId' | 'modelId' | 'endUserId' | 'groups' | 'admittedAtMs' | 'free' | 'requests'
>;

function findNumber(texts: string[], text: string): number {
  if (!texts.includes(text)) texts.push(text);
  return texts.indexOf(text) + 1;
}

const none = { spent: 0n, held: 0n, tokens: 0n, tokensHeld: 0n, running: 0n };

function tallied(of: Admitted, amounts: typeof none): { readonly of: Admitted; readonly tally: Tally } {
  const { modelId, endUserId, admittedAtMs, free, requests } = of;
  return { of, tally: { modelId, endUserId, admittedAtMs, requests: BigInt(free ? requests : 1), ...amounts } };
}

function heldTokens({ text, inputTokens, tokens }: Hold): bigint {
  return text ? BigInt(inputTokens + (tokens ?? 0)) : 0n;
}

function usedTokens({ text, input, cacheRead, cacheWrite5m, cacheWrite1h, output }: Usage): bigint {
  return text ? BigInt(input + cacheRead + cacheWrite5m + cacheWrite1h + output) : 0n;
}

export class MemoryRows implements Rows {
  readonly accounts = new MemoryTable<Row<'accounts'>, [number]>(byId);
  readonly keys = new MemoryTable<Row<'keys'>, [number]>(byId);
  readonly managementKeys = new MemoryTable<Row<'managementKeys'>, [number]>(byId);
  readonly sessions = new MemoryTable<Row<'sessions'>, [number]>(byId);
  readonly keyDays = new MemoryTable<Row<'keyDays'>, [number, number]>(row => [row.keyId, row.day]);
  readonly planDays = new MemoryTable<Row<'planDays'>, [number, number]>(byDay);
  readonly groups = new MemoryTable<Group, [number]>(byId);
  readonly limits = new MemoryTable<Limit, [number]>(byId);
  readonly limitUses = new MemoryTable<LimitUse, [number, number, number]>(use => [
    use.limitId,
    use.number,
    use.endUser,
  ]);
  /** Sets of tags, in the order of their numbers. */
  readonly tagSets: string[] = [];
  readonly tags: string[] = [];
  readonly kinds: string[] = [];
  secrets: readonly OldSecret[] = [];
  /** The listed ids of models, in the order of their numbers. */
  readonly models: string[] = [];
  readonly holds = new MemoryTable<Hold, [number]>(byId);
  readonly usage = new MemoryTable<Usage, [number]>(byId);
  readonly voided = new MemoryTable<Row<'voided'>, [number]>(byId);
  readonly subscriptions = new MemoryTable<Row<'subscriptions'>, [number, number]>(byNumber);
  readonly periods = new MemoryTable<PlanPeriod, [number, number]>(byNumber);
  readonly counters = new MemoryTable<Row<'counters'>, [Row<'counters'>['name']]>(row => [row.name]);
  readonly applied = new MemoryTable<Row<'applied'>, [string]>(row => [row.id]);
  readonly webhooks = new MemoryTable<Webhook, [number]>(byId);
  readonly deliveries = new MemoryTable<Row<'deliveries'>, [number, number]>(row => [row.eventId, row.webhookId]);
  readonly eventMarks = new MemoryTable<Row<'eventMarks'>, [string]>(row => [row.name]);
  events: readonly WebhookEvent[] = [];
  readonly auditChains = new MemoryTable<Row<'auditChains'>, [number]>(row => [row.accountId]);
  audit: readonly AuditRow[] = [];
  entries: readonly Entry[] = [];
  sums: readonly SumChange[] = [];
  /** All voided admissions, because `voided` has only the last one of each id. */
  voids: readonly Row<'voided'>[] = [];

  constructor() {
    const { voided } = this;
    const put = voided.put.bind(voided);
    voided.put = row => {
      this.voids = [...this.voids, row];
      put(row);
    };
  }

  addEntry(entry: Entry): void {
    this.entries = [...this.entries, entry];
  }

  listWebhooks(accountId: number): Webhook[] {
    return this.listAllWebhooks(accountId).filter(({ disabled }) => !disabled);
  }

  listAllWebhooks(accountId: number): Webhook[] {
    return this.webhooks.all().filter(webhook => !webhook.removed && webhook.accountId === accountId);
  }

  addEvent(event: WebhookEvent): void {
    this.events = [...this.events, event];
  }

  listKeys(accountId: number): Key[] {
    return this.keys.all().filter(key => key.accountId === accountId && key.state !== 'revoked');
  }

  listManagementKeys(accountId: number): Row<'managementKeys'>[] {
    return this.managementKeys.all().filter(key => key.accountId === accountId && key.state !== 'revoked');
  }

  expiringKeys(afterMs: number, byMs: number): Key[] {
    return this.keys.all().filter(({ expiresAtMs: at }) => at !== null && at > afterMs && at <= byMs);
  }

  addAudit(row: AuditRow): void {
    this.audit = [...this.audit, row];
  }

  findEntry(reference: string): Entry | undefined {
    return this.entries.find(entry => entry.reference === reference);
  }

  raiseSum(change: SumChange): void {
    this.sums = [...this.sums, change];
  }

  listLimits(scope: Limit['scope'], scopeId: number): Limit[] {
    return this.limits.all().filter(limit => !limit.removed && limit.scope === scope && limit.scopeId === scopeId);
  }

  forgetUses(limitId: number): void {
    for (const use of this.limitUses.all()) {
      if (use.limitId === limitId) this.limitUses.remove(use.limitId, use.number, use.endUser);
    }
  }

  listGroups(accountId: number): Group[] {
    return this.groups.all().filter(group => !group.removed && group.accountId === accountId);
  }

  hasKeys(groupId: number): boolean {
    return this.keys.all().some(key => key.groupId === groupId && key.state !== 'revoked');
  }

  addSecret(secret: OldSecret): void {
    this.secrets = [...this.secrets, secret];
  }

  kindNumber(modelId: number, providerId: number, endpointId: number): number {
    return findNumber(this.kinds, [modelId, providerId, endpointId].join());
  }

  tagsNumber(tags: Tags): number | null {
    const sorted = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.length === 0 ? null : findNumber(this.tagSets, JSON.stringify(Object.fromEntries(sorted)));
  }

  tagNumbers(tagsId: number): number[] {
    const tags = Object.entries(JSON.parse(this.tagSets[tagsId - 1] ?? '{}') as Tags);
    return tags.map(tag => findNumber(this.tags, tag.join()));
  }

  modelName(modelId: number): string {
    return this.models[modelId - 1] ?? '';
  }

  tally({ accountId, scope, scopeId, startMs, endMs, live, byTime }: TallySpan): Tally[] {
    const all = [
      ...this.holds
        .all()
        .map(hold => tallied(hold, { ...none, held: hold.held, tokensHeld: heldTokens(hold), running: 1n })),
      ...(live
        ? []
        : this.usage.all().map(usage => tallied(usage, { ...none, spent: usage.cost, tokens: usedTokens(usage) }))),
      ...(live ? [] : this.voids.map(voided => tallied(voided, none))),
    ];
    const ours = all.filter(({ of }) => {
      if (scope === 'group') return of.groups.includes(scopeId);
      return scope === 'key' ? of.keyId === scopeId : of.accountId === accountId;
    });
    const latest = ours.map(({ of }) => of.admittedAtMs).sort((a, b) => b - a);
    const start = byTime ? Math.min(startMs, latest[200] ?? -Infinity) : startMs;
    return ours
      .filter(({ of }) => of.admittedAtMs >= start && of.admittedAtMs < endMs)
      .map(({ tally }) => tally)
      .sort((a, b) => a.admittedAtMs - b.admittedAtMs);
  }

  hasHash(hash: Uint8Array): boolean {
    const keys = [...this.keys.all(), ...this.managementKeys.all(), ...this.sessions.all(), ...this.secrets];
    return keys.some(key => Buffer.from(key.hash).equals(hash));
  }

  expiredHolds(nowMs: number): Hold[] {
    const at = ({ expiresAtMs }: Hold): number => expiresAtMs ?? Infinity;
    const expired = this.holds.all().filter(hold => at(hold) <= nowMs);
    return expired.sort((a, b) => at(a) - at(b) || a.id - b.id);
  }

  expiredKeys(nowMs: number): Key[] {
    const isDue = ({ expiresAtMs, balance, held }: Key): boolean =>
      expiresAtMs !== null && expiresAtMs <= nowMs && balance !== null && balance > held;
    return this.keys
      .all()
      .filter(isDue)
      .sort((a, b) => a.id - b.id);
  }

  ownHolds(): Hold[] {
    return this.holds.all().filter(hold => hold.expiresAtMs === null);
  }

  endedPeriods(nowMs: number): PlanPeriod[] {
    const ended = this.periods.all().filter(({ live, endMs }) => live && endMs <= nowMs);
    return ended.sort((a, b) => a.endMs - b.endMs || a.accountId - b.accountId);
  }

  /** Runs the work. If it throws, its changes are undone. */
  attempt<T>(work: () => T): T {
    const tables = Object.values(this).filter(value => value instanceof MemoryTable);
    const before = tables.map(table => new Map(table.rows));
    const { audit, events, entries, sums, voids, secrets } = this;
    try {
      return work();
    } catch (error) {
      for (const [index, table] of tables.entries()) table.rows = before[index] ?? new Map();
      Object.assign(this, { audit, events, entries, sums, voids, secrets });
      throw error;
    }
  }
}
