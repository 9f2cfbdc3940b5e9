import type { PriceSheet } from '../../generation/price.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';

const cachedMax = 10_000;

/** Numbers of model names and of price versions, made when first used. */
export class Dictionary {
  readonly #models = new Map<string, number>();
  readonly #prices = new Map<string, number>();
  readonly #findModel: Query<[string], { id: bigint }>;
  readonly #addModel: Query<[string], unknown>;
  readonly #findPrice: Query<(bigint | null)[], { id: bigint }>;
  readonly #addPrice: Query<(bigint | null)[], unknown>;

  constructor(sql: Sql) {
    this.#findModel = sql.prepare('SELECT id FROM model WHERE name = ?');
    this.#addModel = sql.prepare('INSERT INTO model (name) VALUES (?)');
    this.#findPrice = sql.prepare(
      `SELECT id FROM price WHERE coalesce(input, -1) = coalesce(?, -1) AND coalesce(cache_read, -1) = coalesce(?, -1)
         AND coalesce(cache_write_5m, -1) = coalesce(?, -1) AND coalesce(cache_write_1h, -1) = coalesce(?, -1)
         AND coalesce(output, -1) = coalesce(?, -1) AND coalesce(image, -1) = coalesce(?, -1)`,
    );
    this.#addPrice = sql.prepare(
      'INSERT INTO price (input, cache_read, cache_write_5m, cache_write_1h, output, image) VALUES (?, ?, ?, ?, ?, ?)',
    );
  }

  model(name: string): number {
    return numberOf(
      this.#models,
      name,
      () => this.#findModel.get(name)?.id ?? this.#addModel.run(name).lastInsertRowid,
    );
  }

  price(sheet: PriceSheet): number {
    const { input, cacheRead, cacheWrite5m, cacheWrite1h, output, image } = sheet;
    const values = [input, cacheRead, cacheWrite5m, cacheWrite1h, output, image];
    return numberOf(
      this.#prices,
      values.join(),
      () => this.#findPrice.get(...values)?.id ?? this.#addPrice.run(...values).lastInsertRowid,
    );
  }

  /** Forgets everything, because a batch was undone. */
  clear(): void {
    this.#models.clear();
    this.#prices.clear();
  }
}

function numberOf(known: Map<string, number>, name: string, find: () => bigint | number): number {
  const cached = known.get(name);
  if (cached !== undefined) return cached;
  if (known.size >= cachedMax) known.clear();
  const found = Number(find());
  known.set(name, found);
  return found;
}
