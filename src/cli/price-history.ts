import type { AuditRecord } from '../gen/tollgate/v1/history_pb.ts';
import { isoTime } from '../lib/clock.ts';
import type { GatewayClients } from './gateway.ts';
import type { Document } from './output.ts';
import type { ResourceView } from './resources.ts';

/** The changes of models' prices, as the audit's records of reloads and restarts have them. */

/** A change of a model's prices. */
export interface PriceChange {
  readonly model: string;
  readonly changedAt: string;
  /** The prices that differ, by their names in the configuration; null: the model, or the price, did not exist. */
  readonly before: Document | null;
  readonly after: Document | null;
  readonly actor: string;
}

/** Shows a change of prices. */
export const priceChangeView: ResourceView<PriceChange> = {
  document: ({ model, changedAt, before, after, actor }) => ({ model, changed_at: changedAt, before, after, actor }),
  row: ({ model, changedAt, before, after, actor }) => ({
    changed_at: changedAt,
    model,
    before: toText(before),
    after: toText(after),
    actor,
  }),
  columns: ['changed_at', 'model', 'before', 'after', 'actor'],
};

function toText(prices: Document | null): string {
  if (prices === null) return '';
  return Object.entries(prices)
    .map(([name, value]) => `${name} ${typeof value === 'number' ? value : JSON.stringify(value)}`)
    .join(', ');
}

/** The most that one answer of the audit has. */
const pageSize = 1_000;

/** Returns the changes of prices, newest first, as far back as the audit reaches. `model`: only those of this model; undefined: all. */
export async function readPriceChanges(
  { admin }: GatewayClients,
  model: string | undefined,
): Promise<readonly PriceChange[]> {
  const found: PriceChange[] = [];
  for (let offset = 0; ; offset += pageSize) {
    const { records } = await admin.listAccountAudit({ accountId: 0n, query: { limit: pageSize, offset } });
    found.push(...records.flatMap(findPriceChanges).filter(change => model === undefined || change.model === model));
    if (records.length < pageSize) return found;
  }
}

function findPriceChanges(record: AuditRecord): PriceChange[] {
  if (!record.action.startsWith('configuration.')) return [];
  const before = readPrices(record.beforeJson);
  const after = readPrices(record.afterJson);
  const { actorType, actorId, createdAtMs } = record;
  return [...new Set([...before.keys(), ...after.keys()])].map(model => ({
    model,
    changedAt: isoTime(createdAtMs),
    before: before.get(model) ?? null,
    after: after.get(model) ?? null,
    actor: actorId === undefined ? actorType : `${actorType} ${actorId}`,
  }));
}

/** Returns the prices of each model in the changed settings, by their paths such as `models[acme/large].pricing.input`. */
function readPrices(json: string | undefined): ReadonlyMap<string, Document> {
  const prices = new Map<string, Document>();
  for (const [path, value] of Object.entries(JSON.parse(json ?? '{}') as Document)) {
    const [, quoted, plain = quoted, rest] = /^models(?:\[([^\]]+)\]|\.(\w+))(?:\.pricing\.?(.*))?$/.exec(path) ?? [];
    if (plain === undefined || value === null) continue;
    // A model that was added or removed is one setting; `rest` is '' if all its prices were.
    const whole = rest === undefined ? (value as { readonly pricing?: Document }).pricing : (value as Document);
    const changed = rest === undefined || rest === '' ? whole : { [rest]: value };
    prices.set(plain, { ...prices.get(plain), ...changed });
  }
  return prices;
}
