import type { PriceSheet } from '../../generation/price.ts';
import type { Tags } from '../ledger.ts';
import { Names } from './names.ts';
import type { Sql } from './sql.ts';

const priceColumns = ['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output', 'image'];
const tagSetsKnownMax = 10_000;

/** Maps names that records repeat to ids. */
export class Labels {
  readonly #models: Names;
  readonly #providers: Names;
  readonly #prices: Names;
  readonly #endUsers: Names;
  readonly #endpoints: Names;
  readonly #batches: Names;
  readonly #tags: Names;
  readonly #tagSets: Names;
  readonly #kinds: Names;
  readonly #tagsById = new Map<number, readonly number[]>();
  /** All tables, in the order in which they are written: a row comes after the rows that it refers to. */
  readonly #all: readonly Names[];

  constructor(sql: Sql) {
    this.#models = new Names(sql, 'model', ['name']);
    this.#providers = new Names(sql, 'provider', ['name']);
    this.#prices = new Names(sql, 'price', priceColumns);
    this.#endUsers = new Names(sql, 'end_user', ['name']);
    this.#endpoints = new Names(sql, 'endpoint', ['name']);
    this.#batches = new Names(sql, 'batch', ['name']);
    this.#tags = new Names(sql, 'tag', ['name', 'value']);
    this.#tagSets = new Names(sql, 'tag_set', ['tags']);
    this.#kinds = new Names(sql, 'call_kind', ['model_id', 'provider_id', 'endpoint_id']);
    const named = [this.#models, this.#providers, this.#endUsers, this.#endpoints, this.#batches];
    this.#all = [...named, this.#prices, this.#tags, this.#tagSets, this.#kinds];
  }

  /** Returns the id of a model. */
  model(name: string): number {
    return this.#models.number(name, () => [name]);
  }

  modelName(modelId: number): string {
    return this.#models.name(modelId);
  }

  /** Returns the id of an end user; null if there is none. */
  endUser(name: string | undefined): number | null {
    return name === undefined ? null : this.#endUsers.number(name, () => [name]);
  }

  /** Returns the id of a public path; '' stands for none. */
  endpoint(path: string): number {
    return this.#endpoints.number(path, () => [path]);
  }

  /** Returns the id of a batch; null if there is none. */
  batch(id: string | undefined): number | null {
    return id === undefined ? null : this.#batches.number(id, () => [id]);
  }

  /** Returns the id of a provider. */
  provider(name: string): number {
    return this.#providers.number(name, () => [name]);
  }

  /** Returns the id of a price sheet. `name`: its text, as `writePrices` writes it. */
  price(name: string, sheet: PriceSheet): number {
    return this.#prices.number(name, () => [
      sheet.input,
      sheet.cacheRead,
      sheet.cacheWrite5m,
      sheet.cacheWrite1h,
      sheet.output,
      sheet.image,
    ]);
  }

  /** Returns the id of a combination of model, provider and endpoint. */
  kind(modelId: number, providerId: number, endpointId: number): number {
    return this.#kinds.number(`${modelId} ${providerId} ${endpointId}`, () => [modelId, providerId, endpointId]);
  }

  /** Returns the id of a set of tags; null if it is empty. */
  tagSet(tags: Tags): number | null {
    const names = Object.keys(tags);
    if (names.length === 0) return null;
    const text = JSON.stringify(Object.fromEntries(names.sort().map(name => [name, tags[name]])));
    return this.#tagSets.number(text, () => [text]);
  }

  /** Returns the ids of the tags in a set. */
  listTags(tagsId: number): readonly number[] {
    const known = this.#tagsById.get(tagsId);
    if (known !== undefined) return known;
    const tags = Object.entries(JSON.parse(this.#tagSets.name(tagsId)) as Tags);
    const numbers = tags.map(([name, value]) => this.#tag(name, value));
    if (this.#tagsById.size >= tagSetsKnownMax) this.#tagsById.clear();
    this.#tagsById.set(tagsId, numbers);
    return numbers;
  }

  /** Returns the id of the name `other`, under which usage is summed if there are too many end users or values of a tag. */
  other(grouped: 'end_user' | 'tag', valueId: number, other: string): number {
    return grouped === 'end_user' ? (this.endUser(other) ?? 0) : this.#tag(this.#tags.name(valueId), other);
  }

  write(): void {
    for (const names of this.#all) names.write();
  }

  settle(): void {
    for (const names of this.#all) names.settle();
  }

  clear(): void {
    for (const names of this.#all) names.clear();
    this.#tagsById.clear();
  }

  #tag(name: string, value: string): number {
    return this.#tags.number(`${name}=${value}`, () => [name, value]);
  }
}
