import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { absent, type DimensionName } from '../columns/column-file.ts';
import type { ColumnStore, StoredColumns } from '../columns/column-store.ts';
import { type ColumnQuery, type ColumnSums, ColumnSummer } from '../columns/column-sums.ts';
import { toFingerprint, TotalsReader } from '../columns/totals.ts';
import { ColumnBuffers, type ColumnFilters, RowChoice } from '../columns/row-choice.ts';
import type { AnalyticsFilter, AnalyticsGroup, AnalyticsQuery } from '../ledger.ts';
import { hourMs } from '../rules/calendar.ts';

/** A span of time in ms, from `from` up to but not including `to`. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The content of column files for a span. */
export interface SummedColumns {
  readonly sums: readonly ColumnSums[];
  /** The parts of the span that no file covers. */
  readonly uncovered: readonly Span[];
}

/** A part of a span to read from the ledger. `isInFile`: true if a column file shows that it has matching records. */
export interface Part extends Span {
  readonly isInFile: boolean;
}

interface FileQuestion {
  /** The part of the span that the file covers. */
  readonly covered: Span;
  readonly choice: RowChoice;
  readonly buffers: ColumnBuffers;
  readonly wanted: number;
}

/** A statement that passes over this many rows for each wanted record costs as much as one statement for each. */
const passedMax = 8;

type Named = 'model' | 'provider' | 'endpoint' | 'end_user';

/** Sums records from those column files that agree with the ledger's sums. The caller reads the rest from the ledger. */
export class ColumnRecords {
  readonly #store: ColumnStore;
  readonly #totals: TotalsReader;
  readonly #start: Query<[], { value: bigint }>;
  readonly #ids: Readonly<Record<Named, Query<[string], { id: bigint }>>>;
  readonly #names: Readonly<Record<Named, Query<[number], { name: string }>>>;
  readonly #tagSets: Query<[{ path: string }], { id: bigint; value: string | null }>;

  constructor(db: Connection, store: ColumnStore) {
    this.#store = store;
    this.#totals = new TotalsReader(db);
    this.#start = db.prepare("SELECT value FROM meta WHERE name = 'activity_start'");
    const ofEach = <Q>(prepare: (table: Named) => Q): Record<Named, Q> => ({
      model: prepare('model'),
      provider: prepare('provider'),
      endpoint: prepare('endpoint'),
      end_user: prepare('end_user'),
    });
    this.#ids = ofEach(table => db.prepare<[string], { id: bigint }>(`SELECT id FROM ${table} WHERE name = ?`));
    this.#names = ofEach(table => db.prepare<[number], { name: string }>(`SELECT name FROM ${table} WHERE id = ?`));
    this.#tagSets = db.prepare('SELECT id, json_extract(tags, @path) AS value FROM tag_set');
  }

  /** Returns the parts of a span that no file covers. */
  findLeft(accountId: number, span: Span): Span[] {
    return cutOut(span, this.#choose(accountId, span));
  }

  /** Sums the records of a span that are in files. */
  sum(query: AnalyticsQuery, span: Span): SummedColumns {
    const { accountId, groupBy, granularity, limit } = query;
    const { from: startMs, to: endMs } = span;
    const columnQuery = {
      startMs,
      endMs,
      granularity,
      filters: this.#findFilters(query),
      group: this.#findGroup(groupBy),
    };
    const { sums, uncovered } = this.#sum(accountId, columnQuery, limit);
    return { sums: this.#withNames(sums, groupBy), uncovered };
  }

  /** Sums the records of a span that are in files, by whose balance paid: see `toPocket`. */
  sumPockets(accountId: number, { from: startMs, to: endMs }: Span): SummedColumns {
    const group = { dimension: 'pocket', read: (value: number) => value } as const;
    return this.#sum(accountId, { startMs, endMs, granularity: 'day', filters: [], group }, Infinity);
  }

  #sum(accountId: number, query: ColumnQuery, limit: number): SummedColumns {
    const span = { from: query.startMs, to: query.endMs };
    const chosen = this.#choose(accountId, span);
    if (chosen.length === 0) return { sums: [], uncovered: [span] };
    const summer = new ColumnSummer(query);
    const summed: StoredColumns[] = [];
    for (const stored of chosen) {
      const file = this.#store.open(accountId, stored);
      if (file === undefined) continue;
      try {
        summer.add(file);
        summed.push(stored);
      } catch {
        // The file is damaged. The ledger has the same records, so the file is removed and the sum begins again without it.
        this.#store.remove(accountId, stored);
        return this.#sum(accountId, query, limit);
      } finally {
        file.close();
      }
      // The caller refuses so many rows, so the rest is not needed.
      if (summer.size > limit) return { sums: summer.sums, uncovered: [] };
    }
    return { sums: summer.sums, uncovered: cutOut(span, summed) };
  }

  /** Yields the parts of a span that can have records that match a filter, the newest first. They contain only the newest `wanted` records of each file. */
  *listParts(filter: AnalyticsFilter & { readonly accountId: number }, span: Span, wanted: number): Generator<Part> {
    const { accountId } = filter;
    const buffers = new ColumnBuffers();
    const choice = new RowChoice(this.#findFilters(filter), buffers);
    let end = span.to;
    for (const stored of this.#choose(accountId, span).reverse()) {
      const covered = { from: Math.max(span.from, stored.from * hourMs), to: Math.min(span.to, stored.to * hourMs) };
      if (covered.to < end) yield { from: covered.to, to: end, isInFile: false };
      end = covered.from;
      yield* this.#listFile(accountId, stored, { covered, choice, buffers, wanted });
    }
    if (span.from < end) yield { from: span.from, to: end, isInFile: false };
  }

  #listFile(accountId: number, stored: StoredColumns, { covered, choice, buffers, wanted }: FileQuestion): Part[] {
    const file = this.#store.open(accountId, stored);
    if (file === undefined) return [{ ...covered, isInFile: false }];
    try {
      const rows = { first: file.findRow(covered.from), last: file.findRow(covered.to) };
      const count = choice.find(file, rows);
      const offsets = count === 0 ? 0 : buffers.read(file, 'offset_ms', rows);
      const startMs = file.header.from * hourMs;
      const newest = [...choice.rows.subarray(Math.max(0, count - wanted), count)].reverse();
      const times = newest.map(row => startMs + (typeof offsets === 'number' ? offsets : (offsets[row] ?? 0)));
      const [last, first] = [times[0], times.at(-1)];
      if (last === undefined || first === undefined) return [];
      const passed = (newest[0] ?? 0) - (newest.at(-1) ?? 0);
      // The records are close to each other: one statement reads them all and passes over the rows between them.
      if (passed < newest.length * passedMax) return [{ from: first, to: last + 1, isInFile: true }];
      return [...new Set(times)].map(time => ({ from: time, to: time + 1, isInFile: true }));
    } catch {
      // The file is damaged: see `sum`.
      this.#store.remove(accountId, stored);
      return [{ ...covered, isInFile: false }];
    } finally {
      file.close();
    }
  }

  /** Returns the files of a span that agree with the ledger, in order of time. They do not overlap. */
  #choose(accountId: number, span: Span): StoredColumns[] {
    const startMs = Number(this.#start.get()?.value ?? 0n);
    const inSpan: StoredColumns[] = [];
    for (const stored of this.#store.list(accountId)) {
      const isIn = stored.from * hourMs < span.to && stored.to * hourMs > span.from;
      if (isIn && stored.from * hourMs >= startMs && stored.from >= (inSpan.at(-1)?.to ?? 0)) inSpan.push(stored);
    }
    const totals = this.#totals.readAll(accountId, inSpan);
    return inSpan.filter(({ fingerprint }, index) => toFingerprint(totals[index] ?? []) === fingerprint);
  }

  #findFilters({ keyId, model, provider, endpoint, endUser, groupId, tag }: AnalyticsFilter): ColumnFilters {
    const named = (dimension: Named, name: string | undefined): ColumnFilters => {
      if (name === undefined) return [];
      const id = Number(this.#ids[dimension].get(name)?.id ?? -2n);
      return [{ dimension, passes: value => value === id }];
    };
    const group = `,${groupId ?? 0},`;
    const tagSets = tag === undefined ? undefined : this.#readTags(tag.name);
    return [
      ...named('end_user', endUser),
      ...(keyId === undefined ? [] : [{ dimension: 'key', passes: (value: number) => value === keyId } as const]),
      ...named('model', model),
      ...named('provider', provider),
      ...named('endpoint', endpoint),
      ...(tagSets === undefined
        ? []
        : [{ dimension: 'tags', passes: (value: number) => tagSets.get(value) === tag?.value } as const]),
      ...(groupId === undefined
        ? []
        : [
            {
              dimension: 'groups',
              passes: (value: number, lists: readonly string[]) => lists[value]?.includes(group) === true,
            } as const,
          ]),
    ];
  }

  #findGroup(groupBy: AnalyticsGroup): ColumnQuery['group'] {
    if (groupBy === 'none') return null;
    const byDimension = (dimension: DimensionName): ColumnQuery['group'] => ({
      dimension,
      read: value => (value === absent ? null : value),
    });
    if (groupBy === 'api_key') return byDimension('key');
    if (groupBy === 'group') {
      // The first group in the list is the nearest one.
      return {
        dimension: 'groups',
        read: (value, lists) => (lists[value] ? Number.parseInt(lists[value].slice(1), 10) : null),
      };
    }
    if (typeof groupBy !== 'object') return byDimension(groupBy);
    const tagSets = this.#readTags(groupBy.tag);
    return { dimension: 'tags', read: value => tagSets.get(value) ?? null };
  }

  /** Returns the values of a tag by the ids of the tag sets that have it. */
  #readTags(name: string): Map<number, string> {
    const rows = this.#tagSets.all({ path: `$."${name}"` });
    return new Map(rows.flatMap(({ id, value }) => (value === null ? [] : [[Number(id), value]])));
  }

  #withNames(sums: readonly ColumnSums[], groupBy: AnalyticsGroup): readonly ColumnSums[] {
    if (typeof groupBy !== 'string' || !(groupBy in this.#names)) return sums;
    const query = this.#names[groupBy as Named];
    const names = new Map<number | string | null, string | null>([[null, null]]);
    return sums.map(({ group, ...each }) => {
      let name = names.get(group);
      if (name === undefined) names.set(group, (name = query.get(Number(group))?.name ?? ''));
      return { ...each, group: name };
    });
  }
}

function cutOut(span: Span, files: readonly StoredColumns[]): Span[] {
  const uncovered: Span[] = [];
  let { from } = span;
  for (const file of files) {
    if (file.from * hourMs > from) uncovered.push({ from, to: Math.min(file.from * hourMs, span.to) });
    from = Math.max(from, file.to * hourMs);
  }
  return [...uncovered, { from, to: span.to }].filter(part => part.from < part.to);
}
