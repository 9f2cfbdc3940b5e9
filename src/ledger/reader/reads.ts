import type { Plans } from '../ledger.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { checkInvariants } from '../sqlite/invariants.ts';
import { Accounts } from './accounts.ts';
import { Activity } from './activity.ts';
import { Analytics } from './analytics.ts';
import { HistoryReads } from './history.ts';
import { WebhookReads } from './webhooks.ts';
import { Limits } from './limits.ts';
import { Sessions } from './sessions.ts';

/** Returns every read by its name. Arguments and results can be cloned between threads; each read sees all that was committed before it began. */
export function prepareReads(db: Connection, plans: Plans) {
  const accounts = new Accounts(db, plans);
  const activity = new Activity(db);
  const analytics = new Analytics(db);
  const limits = new Limits(db);
  const webhooks = new WebhookReads(db);
  const history = new HistoryReads(db);
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

/** Every read by its name. */
export type Reads = ReturnType<typeof prepareReads>;

/** What the reader's thread is started with. */
export interface ReaderData {
  /** The ledger's file. */
  readonly path: string;
  readonly plans: Plans;
}

/** A read to do. With `sweptBy`, only if nothing that ended by this time still waits to be swept. */
export interface ReadRequest {
  readonly name: keyof Reads;
  readonly args: readonly unknown[];
  readonly sweptBy: number | undefined;
}

/** The outcome of a read, in the order of the requests. `unswept`: a sweep is due first. `storage`: the file could not be read. */
export type ReadReply =
  | { readonly outcome: 'done'; readonly value: unknown }
  | { readonly outcome: 'unswept' }
  | { readonly outcome: 'failed' | 'storage'; readonly message: string };
