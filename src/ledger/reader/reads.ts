import type { Plans } from '../plans.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import type { ColumnStore } from '../columns/column-store.ts';
import { checkInvariants } from '../sqlite/invariants.ts';
import { Accounts } from './accounts.ts';
import { Activity } from './activity.ts';
import { Analytics } from './analytics.ts';
import { HistoryReads } from './history.ts';
import { WebhookReads } from './webhooks.ts';
import { Limits } from './limits.ts';
import { Sessions } from './sessions.ts';

/** Returns the read functions by name. Their arguments and results can be posted between threads. Each read sees everything that was committed before it began. `columns`: see `Analytics`. */
export function prepareReads(db: Connection, plans: Plans, columns?: ColumnStore) {
  const accounts = new Accounts(db, plans);
  const activity = new Activity(db, columns);
  const analytics = new Analytics(db, columns);
  const limits = new Limits(db);
  const webhooks = new WebhookReads(db);
  const history = new HistoryReads(db, columns);
  const sessions = new Sessions(db);
  return {
    needsSweep: accounts.needsSweep.bind(accounts),
    accounts: accounts.list.bind(accounts),
    account: accounts.find.bind(accounts),
    keys: accounts.keys.bind(accounts),
    groups: accounts.groups.bind(accounts),
    group: accounts.group.bind(accounts),
    key: accounts.key.bind(accounts),
    storedKey: accounts.storedKey.bind(accounts),
    lastEntry: accounts.lastEntry.bind(accounts),
    managementKeys: accounts.managementKeys.bind(accounts),
    managementKey: accounts.managementKey.bind(accounts),
    sessions: sessions.list.bind(sessions),
    session: sessions.find.bind(sessions),
    subscription: accounts.subscription.bind(accounts),
    isHeld: accounts.isHeld.bind(accounts),
    voidedHolds: accounts.voidedHolds.bind(accounts),
    limits: limits.list.bind(limits),
    limit: limits.find.bind(limits),
    activity: activity.list.bind(activity),
    record: activity.find.bind(activity),
    analytics: analytics.read.bind(analytics),
    entries: history.entries.bind(history),
    movements: history.movements.bind(history),
    audit: history.audit.bind(history),
    webhooks: webhooks.list.bind(webhooks),
    webhook: webhooks.find.bind(webhooks),
    hasWebhooks: webhooks.hasAny.bind(webhooks),
    deliveries: webhooks.deliveries.bind(webhooks),
    delivery: webhooks.delivery.bind(webhooks),
    dueDeliveries: webhooks.due.bind(webhooks),
    verify: () => checkInvariants(db, 'full'),
  };
}

/** The read functions by name. */
export type Reads = ReturnType<typeof prepareReads>;

/** The data with which the reader's thread starts. */
export interface ReaderData {
  /** The path of the ledger's file. */
  readonly path: string;
  readonly plans: Plans;
}

/** A requested read. With `sweptBy`, the reply is `unswept` if a hold, key or plan period is over at that time and no sweep has ended it yet. */
export interface ReadRequest {
  readonly name: keyof Reads;
  readonly args: readonly unknown[];
  readonly sweptBy: number | undefined;
}

/** The outcome of a read. `unswept`: a sweep must run first. `storage`: the file could not be read. Replies come in the order of the requests. */
export type ReadReply =
  | { readonly outcome: 'done'; readonly value: unknown }
  | { readonly outcome: 'unswept' }
  | { readonly outcome: 'failed' | 'storage'; readonly message: string };
