import { type ActivityRecord, RecordState } from '../../../gen/tollgate/v1/account_pb.ts';
import type { ActivityQuery, RequestSource } from '../data/source.ts';
import { plainDollars } from '../data/money.ts';
import { findNextPage, newest, type PageStart, toPageQuery } from './older.ts';

const page = 1_000;
/** The most rows, because spreadsheets have problems with more. The command line has no such limit. */
export const csvRowsMax = 100_000;

const stateNames = new Map<number, string>(
  Object.entries(RecordState).map(([name, state]) => [state, name.toLowerCase()]),
);

const columns: readonly (readonly [string, (record: ActivityRecord) => string])[] = [
  ['request_id', record => record.requestId],
  ['time', record => new Date(Number(record.createdAtMs)).toISOString()],
  ['model', record => record.model],
  ['api_key_id', record => `${record.apiKeyId}`],
  ['state', record => stateNames.get(record.state) ?? 'unknown'],
  ['input_tokens', record => `${record.usage?.inputTokens ?? ''}`],
  ['cache_read_tokens', record => `${record.usage?.cacheReadTokens ?? ''}`],
  ['output_tokens', record => `${record.usage?.outputTokens ?? ''}`],
  ['latency_ms', record => `${record.latencyMs}`],
  ['cost_usd', record => plainDollars(record.costNanoUsd)],
  ['written_off_usd', record => plainDollars(record.writtenOffNanoUsd)],
  ['end_user', record => record.endUser ?? ''],
  [
    'tags',
    record =>
      Object.entries(record.tags)
        .map(([name, value]) => `${name}:${value}`)
        .join(' '),
  ],
];

/** Quotes a field. A text that a spreadsheet would read as a formula gets an apostrophe in front. */
export function csvField(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Reads the rows of a query, newest first, as comma-separated values. `isCut`: there were more rows than a file may have. */
export async function readCsv(
  source: Pick<RequestSource, 'listActivity'>,
  query: ActivityQuery,
  rowsMax = csvRowsMax,
): Promise<{ text: string; isCut: boolean }> {
  const lines = [columns.map(([name]) => name).join(',')];
  const seen = new Set<string>();
  let start: PageStart | undefined = newest;
  while (start !== undefined && seen.size < rowsMax) {
    const limit = Math.min(page, rowsMax - seen.size);
    const records: readonly ActivityRecord[] = await source.listActivity(toPageQuery(query, start, limit));
    for (const record of records.filter(({ requestId }) => !seen.has(requestId))) {
      seen.add(record.requestId);
      lines.push(columns.map(([, read]) => csvField(read(record))).join(','));
    }
    start = findNextPage(records, start, limit);
  }
  return { text: `${lines.join('\r\n')}\r\n`, isCut: start !== undefined };
}

/** Makes the browser save a text as a file. */
export function saveFile(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
