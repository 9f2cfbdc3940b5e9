import { toStorable } from '../../lib/postgres/values.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import type { CopiedRow } from './copied-table.ts';

/**
 * Converts tags that PostgreSQL can't store: U+0000, and in JSON half of a surrogate pair, become U+FFFD, as in tags of requests that a gateway on PostgreSQL admits. Tags that are different in SQLite
 * stay different: if the result is another tag's value already, U+FFFD is appended until it is not, and if it is another set's text, spaces, which mean nothing in JSON.
 * Every run converts the same tags to the same, so that an interrupted migration can be continued.
 */
class StorableTags {
  /** The converted values, by the JSON of name and value. */
  readonly #values = new Map<string, string>();

  constructor(from: Connection) {
    const rows = from
      .prepare<[], Tag>("SELECT name, value FROM tag WHERE instr(CAST(value AS BLOB), x'00') > 0 ORDER BY id")
      .all();
    const find = from.prepare<[string, string], unknown>('SELECT 1 FROM tag WHERE name = ? AND value = ?');
    const given = new Set<string>();
    for (const { name, value } of rows) {
      let storable = toStorable(value);
      while (given.has(toKey(name, storable)) || find.get(name, storable) !== undefined) storable += '\u{FFFD}';
      given.add(toKey(name, storable));
      this.#values.set(toKey(name, value), storable);
    }
  }

  value({ name, value }: Tag): string {
    return this.#values.get(toKey(name, value)) ?? value;
  }

  /** Returns the text of a set. */
  set(text: string): string {
    const tags = Object.entries(JSON.parse(text) as Readonly<Record<string, string>>);
    // SQLite stores half of a surrogate pair as U+FFFD in the table of tags, but as it is in the JSON of a set.
    const storable = tags.map(([name, value]) => [name, this.value({ name, value: value.toWellFormed() })]);
    return JSON.stringify(Object.fromEntries(storable));
  }
}

interface Tag {
  readonly name: string;
  readonly value: string;
}

/** Returns the conversion of rows of the table `tag`. */
export function makeTagsStorable(from: Connection): (row: CopiedRow) => CopiedRow {
  const tags = new StorableTags(from);
  return row => ({ ...row, value: tags.value({ name: String(row['name']), value: String(row['value']) }) });
}

/** Returns the conversion of rows of the table `tag_set`. */
export function makeTagSetsStorable(from: Connection): (row: CopiedRow) => CopiedRow {
  const tags = new StorableTags(from);
  const odd = from
    .prepare<[], { tags: string }>(String.raw`SELECT tags FROM tag_set WHERE tags LIKE '%\u%' ORDER BY id`)
    .all();
  const find = from.prepare<[string], unknown>('SELECT 1 FROM tag_set WHERE tags = ?');
  const texts = new Map<string, string>();
  const given = new Set<string>();
  for (const { tags: text } of odd) {
    let storable = tags.set(text);
    if (storable === text) continue;
    while (given.has(storable) || find.get(storable) !== undefined) storable += ' ';
    given.add(storable);
    texts.set(text, storable);
  }
  return row => ({ ...row, tags: texts.get(String(row['tags'])) ?? row['tags'] ?? null });
}

function toKey(name: string, value: string): string {
  return JSON.stringify([name, value]);
}
