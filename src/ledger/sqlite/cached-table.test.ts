import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { CachedTable } from './cached-table.ts';
import { flag, int, list, money, orNull, part, type TableSpec, text } from './columns.ts';
import { Sql } from './sql.ts';

interface Sample {
  readonly id: number;
  readonly made: number;
  readonly count: number;
  readonly money: bigint;
  readonly least: number | null;
  readonly most: bigint | null;
  readonly isOn: boolean;
  readonly name: string;
  readonly models: readonly string[] | null;
  readonly request: bigint | string;
}

const spec: TableSpec<Sample> = {
  table: 'sample',
  key: ['id'],
  fixed: ['made'],
  columns: {
    id: ['id', int],
    made: ['made', int],
    count: ['count', int],
    money: ['money', money],
    least: ['least', orNull(int)],
    most: ['most', orNull(money)],
    isOn: ['is_on', flag],
    name: ['name', text],
    models: ['models', orNull(list)],
    request: ['request', part],
  },
};

const databases: Database.Database[] = [];
afterEach(() => {
  for (const db of databases.splice(0)) db.close();
});

function open(): Sql {
  const db = new Database(':memory:');
  databases.push(db);
  db.defaultSafeIntegers(true);
  db.exec(`CREATE TABLE sample (id INTEGER PRIMARY KEY, made INTEGER NOT NULL, count INTEGER NOT NULL, money INTEGER NOT NULL, least INTEGER, most INTEGER,
    is_on INTEGER NOT NULL, name TEXT NOT NULL, models TEXT, request ANY NOT NULL) STRICT`);
  return new Sql(db);
}

const amount = fc.constantFrom(0, 1, 2 ** 53 - 1);
const bigAmount = fc.constantFrom(0n, 1n, -(2n ** 63n));
const sample = fc.record({
  id: fc.integer({ min: 1, max: 200 }),
  made: fc.constantFrom(0, 7),
  count: amount,
  money: bigAmount,
  least: fc.option(amount),
  most: fc.option(bigAmount),
  isOn: fc.boolean(),
  name: fc.constantFrom('', 'a'),
  models: fc.option(fc.constant(['a'])),
  request: fc.oneof(bigAmount, fc.constantFrom('', 'req')),
});
/** A batch that puts these rows, and then removes those whose id is in the list. */
const batch = fc.record({
  puts: fc.array(sample, { maxLength: 150, size: 'max' }),
  removes: fc.array(fc.integer({ min: 1, max: 200 }), { maxLength: 150, size: 'max' }),
});

test('the file has the rows that were put and not removed, whichever of their values are NULL or 0 and whichever change', () => {
  fc.assert(
    fc.property(fc.array(batch, { minLength: 1, maxLength: 6 }), fc.boolean(), (batches, readsAgain) => {
      const sql = open();
      const wanted = new Map<number, Sample>();
      let table = new CachedTable(sql, spec, { highest: 0 });
      for (const { puts, removes } of batches) {
        for (const row of puts) {
          const made = wanted.get(row.id)?.made ?? row.made;
          table.put({ ...row, made });
          wanted.set(row.id, { ...row, made });
        }
        for (const id of removes) {
          if (!wanted.delete(id)) continue;
          table.remove(id);
          // A row with the same key may follow at once.
          const again = puts.findLast(row => row.id === id && row.isOn);
          if (again === undefined) continue;
          table.put(again);
          wanted.set(id, again);
        }
        table.write();
        table.settle();
        if (readsAgain) table = new CachedTable(sql, spec, { highest: 200 });
      }
      const stored = new CachedTable(sql, spec, { highest: 200 });
      const ids = sql.db.prepare<[], { id: bigint }>('SELECT id FROM sample').all();
      expect(ids.map(({ id }) => Number(id)).sort((a, b) => a - b)).toEqual([...wanted.keys()].sort((a, b) => a - b));
      for (const [id, row] of wanted) expect(stored.get(id)).toEqual(row);
      const types = sql.db
        .prepare<[], { kind: string }>(
          "SELECT DISTINCT typeof(request) AS kind FROM sample WHERE typeof(request) NOT IN ('integer', 'text')",
        )
        .all();
      expect(types).toEqual([]);
    }),
    { numRuns: 40, endOnFailure: true },
  );
});
