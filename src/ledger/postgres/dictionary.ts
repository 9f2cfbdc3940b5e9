import { createHash } from 'node:crypto';
import type { PriceSheet } from '../../generation/price.ts';
import { type Sendable, toParameter, type Value } from '../../lib/postgres/values.ts';
import type { Tags } from '../ledger.ts';
import { MissingRow } from './missing-row.ts';

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

type Name = keyof typeof columns;

const knownMax = 100_000;

/**
 * Numbers for the names that records repeat, cached for ever because they never change. An unknown name is looked up, or added, in a transaction of its own before the rule runs again, so that no batch waits for another's names.
 */
export class Dictionary {
  readonly #numbers = new Map<string, number>();
  readonly #texts = new Map<string, string>();
  readonly #tags = new Map<number, readonly number[]>();

  model(name: string): number {
    return this.#number('model', [name]);
  }

  modelName(modelId: number): string {
    return this.#text('model', 'name', modelId);
  }

  /** Returns the number of an end user; null for nobody. */
  endUser(name: string | undefined): number | null {
    return name === undefined ? null : this.#number('end_user', [name]);
  }

  endpoint(path: string): number {
    return this.#number('endpoint', [path]);
  }

  /** Returns the number of a batch; null for none. */
  batch(id: string | undefined): number | null {
    return id === undefined ? null : this.#number('batch', [id]);
  }

  provider(name: string): number {
    return this.#number('provider', [name]);
  }

  price({ input, cacheRead, cacheWrite5m, cacheWrite1h, output, image }: PriceSheet): number {
    return this.#number('price', [input, cacheRead, cacheWrite5m, cacheWrite1h, output, image]);
  }

  /** Returns the number of a kind of calls. */
  kind(modelId: number, providerId: number, endpointId: number): number {
    return this.#number('call_kind', [modelId, providerId, endpointId]);
  }

  /** Returns the number of this set of tags; null: there are none. */
  tagSet(tags: Tags): number | null {
    const names = Object.keys(tags);
    if (names.length === 0) return null;
    return this.#number('tag_set', [JSON.stringify(Object.fromEntries(names.sort().map(name => [name, tags[name]])))]);
  }

  /** Returns the numbers of the tags in a set of tags. */
  listTags(tagsId: number): readonly number[] {
    const known = this.#tags.get(tagsId);
    if (known !== undefined) return known;
    const tags = Object.entries(JSON.parse(this.#text('tag_set', 'tags', tagsId)) as Tags);
    const numbers = tags.map(([name, value]) => this.#number('tag', [name, value]));
    if (this.#tags.size >= knownMax) this.#tags.clear();
    this.#tags.set(tagsId, numbers);
    return numbers;
  }

  /** Returns the number of `other`, under which sums are kept if there are too many end users or values of a tag. */
  other(grouped: 'end_user' | 'tag', groupId: number, other: string): number {
    return grouped === 'end_user'
      ? (this.endUser(other) ?? 0)
      : this.#number('tag', [this.#text('tag', 'name', groupId), other]);
  }

  #number(table: Name, values: readonly Sendable[]): number {
    const json = JSON.stringify(values, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
    const name = `${table} ${json}`;
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const digest = toParameter(createHash('sha256').update(json).digest());
    const cells = columns[table];
    const places = cells.map((cell, index) => `$${index + 2}::${cell.split('::')[1] ?? ''}`);
    const names = cells.map(cell => cell.split('::')[0]);
    throw new MissingRow({
      when: 'apart',
      steps: [
        {
          text: `INSERT INTO ${table} (digest, ${names.join(', ')}) VALUES ($1::bytea, ${places.join(', ')}) ON CONFLICT (digest) DO NOTHING`,
          values: [digest, ...values.map(toParameter)],
        },
        { text: `SELECT id FROM ${table} WHERE digest = $1::bytea`, values: [digest] },
      ],
      take: ([, found]) => {
        if (this.#numbers.size >= knownMax) this.#numbers.clear();
        this.#numbers.set(name, Number(found?.rows[0]?.[0]));
      },
    });
  }

  #text(table: Name, column: string, number: number): string {
    const name = `${table} ${number}`;
    const known = this.#texts.get(name);
    if (known !== undefined) return known;
    const text = `SELECT ${column} FROM ${table} WHERE id = $1::bigint`;
    throw new MissingRow({
      when: 'apart',
      steps: [{ text, values: [String(number)] }],
      take: ([found]) => {
        if (this.#texts.size >= knownMax) this.#texts.clear();
        this.#texts.set(name, toText(found?.rows[0]?.[0]));
      },
    });
  }
}

function toText(value: Value | undefined): string {
  return typeof value === 'string' ? value : '';
}
