import { writePart } from '../../ledger/postgres/replay.ts';
import type { Sendable } from '../../lib/postgres/values.ts';
import type { CopiedTable } from './copied-table.ts';
import { makeTagSetsStorable, makeTagsStorable } from './storable-tags.ts';

const numbered = 'id';
/** Returns a table of the dictionary, whose rows are found by a digest of their content. */
const words = (name: string, ...columns: string[]): CopiedTable => ({
  name,
  numbered,
  digested: row => columns.map(column => row[column] ?? null),
});
const kinds = ['model_id', 'provider_id', 'endpoint_id'];

/** Converts the column with a request's part, which is a number or a text. The cast holds, because the value is unchanged or becomes a text. */
const writeRequest = (part: Sendable): Sendable => writePart(part) as Sendable;

/** The tables of the ledger, in an order in which each may be copied. */
export const ledgerTables: readonly CopiedTable[] = [
  words('model', 'name'),
  words('provider', 'name'),
  words('endpoint', 'name'),
  words('end_user', 'name'),
  words('batch', 'name'),
  { ...words('tag', 'name', 'value'), makeStorable: makeTagsStorable },
  { ...words('tag_set', 'tags'), makeStorable: makeTagSetsStorable },
  words('price', 'input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output', 'image'),
  { name: 'call_kind', numbered, digested: row => kinds.map(column => Number(row[column])) },
  // 0, so that the first sweep looks for everything that has expired.
  { name: 'account', added: { due_at_ms: (): Sendable => 0 } },
  { name: 'api_key' },
  { name: 'applied', numbered: 'number' },
  { name: 'audit' },
  { name: 'audit_chain' },
  { name: 'delivery' },
  { name: 'entry' },
  { name: 'event' },
  { name: 'event_mark' },
  { name: 'hold', changed: { request: writeRequest } },
  { name: 'key_day' },
  { name: 'key_group' },
  { name: 'limit_use' },
  { name: 'management_key' },
  { name: 'old_secret' },
  { name: 'plan_day' },
  { name: 'plan_period' },
  { name: 'session' },
  { name: 'subscription' },
  { name: 'usage', changed: { request: writeRequest } },
  { name: 'usage_limit' },
  { name: 'usage_sum' },
  { name: 'voided' },
  { name: 'webhook' },
];

/** The tables of the documents. */
export const documentTables: readonly CopiedTable[] = [
  { name: 'document', numbered: 'row', added: { boot: (): Sendable => null } },
  { name: 'body', target: 'document_body', isLarge: true },
  { name: 'chunk', target: 'document_chunk', isLarge: true },
];
