import { Numbers } from './families.ts';

/** The stores, as labels name them. */
export type StoreName = 'ledger' | 'content';

/** Why accounts are suspended, as labels name it. */
const suspensionReasons = ['damaged', 'write_offs'];

/** Metrics of the disk and the stored data. */
export class StorageMetrics {
  readonly #diskFree = new Numbers('gauge', {
    name: 'tollgate_disk_free_bytes',
    help: 'Free space of the file system that has the data directory.',
  });
  readonly #diskLow = new Numbers('gauge', {
    name: 'tollgate_disk_low',
    help: '1 while less than a twentieth of the disk is free, else 0.',
  });
  readonly #writable = new Numbers('gauge', {
    name: 'tollgate_store_writable',
    help: '0 while a store can’t be written, else 1.',
    labels: ['store'],
  });
  readonly #oldestSnapshot = new Numbers('gauge', {
    name: 'tollgate_database_oldest_snapshot_seconds',
    help: 'Age of the oldest snapshot of the database, 0 if there is none. Only gateways on PostgreSQL have it.',
  });
  readonly #writtenOff = new Numbers('counter', {
    name: 'tollgate_written_off_dollars_total',
    help: 'Dollars of the cost of requests that no funds covered.',
  });
  readonly #suspended = new Numbers('counter', {
    name: 'tollgate_account_suspensions_total',
    help: 'Accounts that were suspended, by reason.',
    labels: ['reason'],
  });

  constructor() {
    this.writable('ledger', true);
    this.writable('content', true);
    this.#writtenOff.of().value = 0;
    // Both series exist from the start, because Prometheus computes no increase for the first sample of a series.
    for (const reason of suspensionReasons) this.#suspended.of(reason).value = 0;
  }

  /** Sets the free space, and whether it is low. */
  disk(freeBytes: number, isLow: boolean): void {
    this.#diskFree.of().value = freeBytes;
    this.#diskLow.of().value = Number(isLow);
  }

  /** Sets whether a store can be written. */
  writable(store: StoreName, isWritable: boolean): void {
    this.#writable.of(store).value = Number(isWritable);
  }

  /** Sets the age of the database's oldest snapshot; 0: there is none. */
  oldestSnapshot(ageMs: number): void {
    this.#oldestSnapshot.of().value = ageMs / 1000;
  }

  /** Counts an amount that was written off. */
  wroteOff(dollars: number): void {
    this.#writtenOff.of().value += dollars;
  }

  /** Counts an account that was suspended. */
  suspended(reason: string): void {
    this.#suspended.of(reason).value += 1;
  }

  /** Returns these metrics in Prometheus' text format. */
  text(): string {
    const families = [
      this.#diskFree,
      this.#diskLow,
      this.#writable,
      this.#oldestSnapshot,
      this.#writtenOff,
      this.#suspended,
    ];
    return families.map(family => family.text()).join('\n\n');
  }
}
