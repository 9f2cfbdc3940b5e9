import { createHash } from 'node:crypto';
import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import type { PriceSheet } from '../../generation/price.ts';
import { type Sendable, toArray, toStorable, type Value } from '../../lib/postgres/values.ts';
import type { Tags } from '../ledger.ts';
import { MissingRow, type Need } from './missing-row.ts';

const columns = {
  model: ['name::text'],
  provider: ['name::text'],
  endpoint: ['name::text'],
  end_user: ['name::text'],
  batch: ['name::text'],
  tag: ['name::text', 'value::text'],
  tag_set: ['tags::text'],
  price: [
    'input::bigint',
    'cache_read::bigint',
    'cache_write_5m::bigint',
    'cache_write_1h::bigint',
    'output::bigint',
    'image::bigint',
  ],
  call_kind: ['model_id::bigint', 'provider_id::bigint', 'endpoint_id::bigint'],
} as const;

type DictionaryTable = keyof typeof columns;

/** The values of a row, and its table. */
interface Name {
  readonly table: DictionaryTable;
  readonly values: readonly Sendable[];
}

const tables = Object.keys(columns) as DictionaryTable[];
/** The most rows of each table in the cache. */
const knownMax = 100_000;

/**
 * Maps names that records repeat to ids. Ids never change, so they are cached without expiry. New names in the commands of a batch are added together, in one transaction before the batch locks its
 * accounts (`want…`, `takeWanted`). A name that turns out to be unknown later is looked up or added in another transaction before the rule runs again, so that no batch waits for the names of another.
 */
export class Dictionary {
  readonly #numbers = new Map(tables.map(table => [table, new Map<string, number>()]));
  /** Names of models and tags, and texts of tag sets, by their table and id. */
  readonly #texts = new Map<string, string>();
  readonly #tags = new Map<number, readonly number[]>();
  /** The ids of price sheets. The same object stands for the same prices, so each text is read only once. */
  readonly #prices = new WeakMap<PriceSheet, number>();
  /** Unknown names by their table and key. */
  readonly #wanted = new Map<string, Name>();

  /** Notes the name of a model, an endpoint, an end user, a batch or a provider to be looked up; does nothing for undefined. */
  want(table: 'model' | 'endpoint' | 'end_user' | 'batch' | 'provider', name: string | undefined): void {
    if (name !== undefined && !this.#known(table).has(name)) this.#note({ table, values: [name] });
  }

  wantPrice(sheet: PriceSheet): void {
    if (this.#prices.has(sheet)) return;
    const name: Name = { table: 'price', values: listPrices(sheet) };
    if (!this.#known('price').has(toKey(name.values))) this.#note(name);
  }

  /** Notes a set of tags, and each of its tags, to be looked up. */
  wantTags(tags: Tags): void {
    const text = writeTags(tags);
    if (text === undefined || this.#known('tag_set').has(text)) return;
    for (const name of listTagNames(text)) this.#note(name);
  }

  /** Returns how to add the noted names and load their ids, and clears the notes; undefined if all ids are known. */
  takeWanted(): Need | undefined {
    if (this.#wanted.size === 0) return undefined;
    const names = [...this.#wanted.values()];
    this.#wanted.clear();
    return this.#add(names);
  }

  model(name: string): number {
    return this.#number('model', [name]);
  }

  modelName(modelId: number): string {
    return this.#text('model', 'name', modelId);
  }

  /** Returns the id of an end user; null if there is none. */
  endUser(name: string | undefined): number | null {
    return name === undefined ? null : this.#number('end_user', [name]);
  }

  endpoint(path: string): number {
    return this.#number('endpoint', [path]);
  }

  /** Returns the id of a batch; null if there is none. */
  batch(id: string | undefined): number | null {
    return id === undefined ? null : this.#number('batch', [id]);
  }

  provider(name: string): number {
    return this.#number('provider', [name]);
  }

  price(sheet: PriceSheet): number {
    const known = this.#prices.get(sheet);
    if (known !== undefined) return known;
    const number = this.#number('price', listPrices(sheet));
    this.#prices.set(sheet, number);
    return number;
  }

  /** Returns the id of a combination of model, provider and endpoint. */
  kind(modelId: number, providerId: number, endpointId: number): number {
    return this.#number('call_kind', [modelId, providerId, endpointId]);
  }

  /** Returns the id of a set of tags; null if it is empty. */
  tagSet(tags: Tags): number | null {
    const text = writeTags(tags);
    if (text === undefined) return null;
    const known = this.#known('tag_set').get(text);
    if (known !== undefined) return known;
    throw new MissingRow(this.#add(listTagNames(text)));
  }

  /** Returns the ids of the tags in a set. */
  listTags(tagsId: number): readonly number[] {
    const known = this.#tags.get(tagsId);
    if (known !== undefined) return known;
    const names = listTagNames(this.#text('tag_set', 'tags', tagsId)).slice(1);
    const missing = names.filter(({ values }) => !this.#known('tag').has(toKey(values)));
    if (missing.length > 0) throw new MissingRow(this.#add(missing));
    return this.#cacheTags(tagsId, names);
  }

  /** Returns the ids of the tags in a set if they are cached, else undefined. */
  findTags(tagsId: number): readonly number[] | undefined {
    return this.#tags.get(tagsId);
  }

  /** Returns the id of the name `other`, under which usage is summed if there are too many end users or values of a tag. */
  other(grouped: 'end_user' | 'tag', valueId: number, other: string): number {
    return grouped === 'end_user'
      ? (this.endUser(other) ?? 0)
      : this.#number('tag', [this.#text('tag', 'name', valueId), other]);
  }

  #known(table: DictionaryTable): Map<string, number> {
    return this.#numbers.get(table) as Map<string, number>;
  }

  #note(name: Name): void {
    this.#wanted.set(`${name.table} ${toKey(name.values)}`, name);
  }

  #number(table: DictionaryTable, values: readonly Sendable[]): number {
    const known = this.#known(table).get(toKey(values));
    if (known !== undefined) return known;
    throw new MissingRow(this.#add([{ table, values }]));
  }

  /**
   * Returns how to add the names that the database does not have, and to load the ids of all. All gateways add names in the same order, by table and digest, so that they can't wait for each other in
   * a circle.
   */
  #add(names: readonly Name[]): Need {
    const steps: Step[] = [];
    const takes: ((results: readonly StepResult[]) => void)[] = [];
    for (const table of tables) {
      const own = names.filter(name => name.table === table);
      if (own.length === 0) continue;
      const at = steps.length;
      steps.push(...addSteps(table, own));
      takes.push(results => this.#addIds(table, own, results[at + 1]));
    }
    const onResults = (results: readonly StepResult[]): void => {
      for (const each of takes) each(results);
      for (const { table, values } of names) if (table === 'tag_set') this.#cacheKnownTags(String(values[0]));
    };
    return { when: 'apart', steps, onResults };
  }

  #addIds(table: DictionaryTable, names: readonly Name[], found: StepResult | undefined): void {
    const numbers = new Map((found?.rows ?? []).map(([id, digest]) => [digest, Number(id)]));
    const known = this.#known(table);
    if (known.size + names.length > knownMax) known.clear();
    for (const { values } of names) {
      const number = numbers.get(toDigest(values).toString('hex'));
      if (number === undefined) throw new Error(`the dictionary lacks a row of ${table} that was added`);
      known.set(toKey(values), number);
      if (table === 'tag' || table === 'model') this.#cacheText(`${table} ${number}`, String(values[0]));
    }
  }

  /** Caches which tags a set has, if the ids of all are cached. */
  #cacheKnownTags(text: string): void {
    const tagsId = this.#known('tag_set').get(text);
    const names = listTagNames(text).slice(1);
    const isKnown = names.every(({ values }) => this.#known('tag').has(toKey(values)));
    if (tagsId !== undefined && isKnown) this.#cacheTags(tagsId, names);
  }

  #cacheTags(tagsId: number, names: readonly Name[]): readonly number[] {
    const numbers = names.map(({ table, values }) => this.#number(table, values));
    if (this.#tags.size >= knownMax) this.#tags.clear();
    this.#tags.set(tagsId, numbers);
    return numbers;
  }

  #cacheText(name: string, text: string): void {
    if (this.#texts.size >= knownMax) this.#texts.clear();
    this.#texts.set(name, text);
  }

  #text(table: DictionaryTable, column: string, number: number): string {
    const name = `${table} ${number}`;
    const known = this.#texts.get(name);
    if (known !== undefined) return known;
    const text = `SELECT ${column} FROM ${table} WHERE id = $1::bigint`;
    throw new MissingRow({
      when: 'apart',
      steps: [{ text, values: [String(number)] }],
      onResults: ([found]) => this.#cacheText(name, toText(found?.rows[0]?.[0])),
    });
  }
}

/** Returns the statements that add rows to a table, in the order of their digests, and select the ids of all. Existing rows are not changed. */
function addSteps(table: DictionaryTable, names: readonly Name[]): Step[] {
  const cells = columns[table].map(cell => cell.split('::') as [column: string, type: string]);
  const own = cells.map(([column]) => column).join(', ');
  const arrays = cells.map(([, type], index) => `$${index + 2}::${type}[]`).join(', ');
  const digests = toArray(names.map(({ values }) => toDigest(values)));
  return [
    {
      text: `INSERT INTO ${table} (digest, ${own}) SELECT v.* FROM unnest($1::bytea[], ${arrays}) AS v(digest, ${own})
        WHERE NOT EXISTS (SELECT 1 FROM ${table} t WHERE t.digest = v.digest) ORDER BY v.digest ON CONFLICT (digest) DO NOTHING`,
      values: [digests, ...cells.map((_, index) => toArray(names.map(({ values }) => values[index] ?? null)))],
    },
    { text: `SELECT id, encode(digest, 'hex') FROM ${table} WHERE digest = ANY($1::bytea[])`, values: [digests] },
  ];
}

/** Returns the text of which a row's digest is made. */
function toDigestText(values: readonly Sendable[]): string {
  return JSON.stringify(values, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
}

function toDigest(values: readonly Sendable[]): Buffer {
  return createHash('sha256').update(toDigestText(values)).digest();
}

/** Returns the key of a row in the map of its table. A row with a single text has that text as its key, which is faster. */
function toKey(values: readonly Sendable[]): string {
  const [only] = values;
  return values.length === 1 && typeof only === 'string' ? only : toDigestText(values);
}

function listPrices({ input, cacheRead, cacheWrite5m, cacheWrite1h, output, image }: PriceSheet): Sendable[] {
  return [input, cacheRead, cacheWrite5m, cacheWrite1h, output, image];
}

/** Returns the text of a set of tags; undefined if the set is empty. Characters that PostgreSQL can't store in JSON are replaced. */
function writeTags(tags: Tags): string | undefined {
  const names = Object.keys(tags);
  if (names.length === 0) return undefined;
  const values = names.sort().map(name => [name, toStorable((tags[name] ?? '').toWellFormed())]);
  return JSON.stringify(Object.fromEntries(values));
}

/** Returns the rows for a set of tags: the set's first, then one for each tag. */
function listTagNames(text: string): Name[] {
  const tags = Object.entries(JSON.parse(text) as Tags);
  return [{ table: 'tag_set', values: [text] }, ...tags.map((values): Name => ({ table: 'tag', values }))];
}

function toText(value: Value | undefined): string {
  return typeof value === 'string' ? value : '';
}
