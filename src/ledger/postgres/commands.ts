import type { AdminCall } from '../rules/administration.ts';
import type { PriceSheet } from '../../generation/price.ts';
import { administer } from '../rules/administration.ts';
import { admit, type ResolvedAdmit, previewAdmission } from '../rules/admit.ts';
import type { Tags } from '../ledger.ts';
import type { Context } from '../rules/context.ts';
import { extend } from '../rules/extend.ts';
import { settle, voidRequest } from '../rules/settle.ts';
import { remindOfExpiry, reportDelivery } from '../rules/webhooks.ts';
import { readRefusal, readWindows } from '../rules/windows.ts';
import {
  decodeAdmit,
  decodeSettle,
  encodeAdmitReply,
  encodeSettleReply,
  readPrices,
  type WireCommand,
} from '../sqlite/wire.ts';
import type { BatchRows } from './batch-rows.ts';
import type { Dictionary } from './dictionary.ts';

const sheets = new Map<string, PriceSheet>();
const sheetsMax = 10_000;

/** Executes a command. Returns the same reply as the SQLite engine. Throws `MissingRow` or `UnlockedAccount` if the rows throw it. */
export function execute(context: Context, rows: BatchRows, command: WireCommand, nowMs: number): unknown {
  const { labels } = rows;
  switch (command[0]) {
    case 'admit':
      return encodeAdmitReply(admit(context, resolveAdmit(labels, command), nowMs));
    case 'preview':
      return previewAdmission(context, resolveAdmit(labels, command[2]), nowMs);
    case 'settle': {
      const settlement = decodeSettle(command);
      const prices = readSheet(settlement.prices);
      const priceId = labels.price(prices);
      const providerId = labels.provider(settlement.provider);
      return encodeSettleReply(settle(context, { ...settlement, prices, priceId, providerId }, nowMs));
    }
    case 'extend':
      return extend(context, { command: command[2], extension: command[3] }, nowMs);
    case 'void':
      return voidRequest(context, command[2], command[3], nowMs);
    case 'windows': {
      const key = rows.keys.get(command[2]);
      return key === undefined ? [] : readWindows(rows, key, command[3], nowMs);
    }
    case 'refusal': {
      const key = rows.keys.get(command[2]);
      return key === undefined ? 0 : readRefusal(rows, key, nowMs);
    }
    case 'admin':
      return administer(context, command[2], nowMs);
    case 'report':
      reportDelivery(rows, command[2], nowMs);
      return undefined;
    case 'remind':
      remindOfExpiry(rows, nowMs);
      return undefined;
    case 'uses':
      rows.showUses(command[2], nowMs);
      return undefined;
    case 'prune':
      throw new Error('on PostgreSQL, no command removes old rows');
    case 'sweep':
    case 'sync':
    case 'probe':
      return undefined;
  }
}

/** Notes the names that a command contains, so that they can be looked up together. `findTags`: returns the tags that requests of a key get from it and its groups; undefined if they are unknown. */
export function wantNames(
  labels: Dictionary,
  command: WireCommand,
  findTags: (keyId: number) => Tags | undefined,
): void {
  if (command[0] === 'admit') {
    const [, , , , keyId, , model, , , , , , , endUser, endpoint, tags, batchId] = command;
    labels.want('model', model);
    labels.want('endpoint', endpoint);
    labels.want('end_user', endUser);
    labels.want('batch', batchId);
    const inherited = findTags(keyId);
    if (inherited !== undefined) labels.wantTags(tags === undefined ? inherited : { ...inherited, ...tags });
  } else if (command[0] === 'settle') {
    const [, , , , , , , , , provider, , prices] = command;
    labels.want('provider', provider);
    labels.wantPrice(readSheet(prices));
  }
}

function resolveAdmit(labels: Dictionary, command: Parameters<typeof decodeAdmit>[0]): ResolvedAdmit {
  const admission = decodeAdmit(command);
  const modelId = labels.model(admission.model);
  const endUserId = labels.endUser(admission.endUser);
  const endpointId = labels.endpoint(admission.endpoint);
  return { ...admission, modelId, endUserId, endpointId, batchId: labels.batch(admission.batchId) };
}

function readSheet(text: string): PriceSheet {
  const known = sheets.get(text);
  if (known !== undefined) return known;
  if (sheets.size >= sheetsMax) sheets.clear();
  const sheet = readPrices(text);
  sheets.set(text, sheet);
  return sheet;
}

/** Returns true if a command takes ids from counters or changes data of the operator. Its batch then locks both, after the accounts. */
export function locksCounters(command: WireCommand): boolean {
  return command[0] === 'admin' || command[0] === 'report' || command[0] === 'remind';
}

/** Returns the account that an administrative command names; undefined if it names none. */
export function findAccountId({ command }: AdminCall): number | undefined {
  const { accountId } = command as { readonly accountId?: number | null };
  return typeof accountId === 'number' && accountId > 0 ? accountId : undefined;
}
