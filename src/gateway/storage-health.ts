import { constants, type StatsFsBase } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { dollarsNumber } from '../lib/dollars.ts';
import type { LedgerWatch } from '../ledger/sqlite/ledger-watch.ts';
import type { DocumentWatch } from '../store/sqlite/documents/document-writer.ts';
import type { Logger } from '../telemetry/logger.ts';
import { StorageMetrics, type StoreName } from '../telemetry/storage-metrics.ts';

/** With fewer free bytes than this, the disk counts as full, although a write may still succeed. */
const fullBytes = 16 << 20;
/** With a smaller share of the disk free than this, the disk is low. */
const lowFraction = 0.05;
const checkMs = 5_000;

/** The options of storage health. */
export interface StorageHealthOptions {
  readonly dataDir: string;
  readonly logger: Logger;
  /** Reads the free space of the file system; absent: the operating system is queried. */
  readonly readSpace?: (dataDir: string) => Promise<Pick<StatsFsBase<number>, 'bavail' | 'blocks' | 'bsize'>>;
}

/**
 * Decides whether the gateway can write its storage, from what the stores report and the free disk space. Each change is logged and counted once. Checks the disk every five seconds until it is closed.
 */
export class StorageHealth {
  readonly metrics = new StorageMetrics();
  readonly #options: StorageHealthOptions;
  readonly #failing = new Set<StoreName>();
  readonly #lost = Promise.withResolvers<Error>();
  #disk: 'fine' | 'low' | 'full' | 'read_only' = 'fine';
  #timer: NodeJS.Timeout | undefined;
  #onLow: ((freeBytes: number) => void) | undefined;

  constructor(options: StorageHealthOptions) {
    this.#options = options;
  }

  /** Resolves if storage has lost writes. The process must then end immediately. */
  get lost(): Promise<Error> {
    return this.#lost.promise;
  }

  /** Why requests can't be accepted, in words for the operator; undefined: they can. */
  get reason(): string | undefined {
    if (this.#disk === 'full') return 'The disk of the data directory is full.';
    if (this.#disk === 'read_only') return 'The data directory can’t be written.';
    if (this.#failing.has('ledger')) return 'The ledger can’t be written.';
    return this.#failing.has('content') ? 'The content store can’t be written.' : undefined;
  }

  /** Receives the ledger's reports. */
  get ledgerWatch(): LedgerWatch {
    const { logger } = this.#options;
    return {
      failing: cause => this.#note('ledger', cause),
      lost: cause => this.#lose('ledger', cause),
      suspended: account => {
        this.metrics.suspended(account.reason);
        logger.error(account, 'an account was suspended: see docs/operations.md');
      },
      wroteOff: (id, nanoUsd) => {
        const dollars = dollarsNumber(nanoUsd);
        this.metrics.wroteOff(dollars);
        logger.warn({ id, dollars }, 'a request cost more than its funds: the rest was written off');
      },
    };
  }

  /** Receives the documents' reports. */
  get documentWatch(): DocumentWatch {
    return { failing: cause => this.#note('content', cause), lost: cause => this.#lose('content', cause) };
  }

  /** Calls `onFree` whenever the disk becomes low or full. */
  onLow(onFree: (freeBytes: number) => void): void {
    this.#onLow = onFree;
  }

  /** Checks the disk now, and then every five seconds. */
  async start(): Promise<void> {
    await this.#checkDisk();
    this.#timer = setInterval(() => void this.#checkDisk(), checkMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #note(store: StoreName, cause: Error | undefined): void {
    const { logger } = this.#options;
    this.metrics.writable(store, cause === undefined);
    if (cause === undefined) {
      this.#failing.delete(store);
      logger.info({ store }, 'a store can be written again');
    } else {
      this.#failing.add(store);
      logger.error({ store, error: cause }, 'a store can’t be written');
    }
  }

  #lose(store: StoreName, cause: Error): void {
    this.metrics.writable(store, false);
    this.#options.logger.error(
      { store, error: cause },
      'the disk lost writes: the process ends, and the next start reads them back from the log',
    );
    this.#lost.resolve(cause);
  }

  /** Checks the disk. Never rejects: if the data directory can't be read, the next write fails and reports it. */
  async #checkDisk(): Promise<void> {
    const { dataDir, logger, readSpace = statfs } = this.#options;
    try {
      const { bavail, blocks, bsize } = await readSpace(dataDir);
      const freeBytes = bavail * bsize;
      const isLow = bavail < blocks * lowFraction;
      this.metrics.disk(freeBytes, isLow);
      const isWritable = await access(dataDir, constants.W_OK).then(
        () => true,
        () => false,
      );
      const low = isLow ? 'low' : 'fine';
      const disk = isWritable ? (freeBytes < fullBytes ? 'full' : low) : 'read_only';
      if (disk === this.#disk) return;
      if ((disk === 'low' || disk === 'full') && this.#disk !== 'low' && this.#disk !== 'full')
        this.#onLow?.(freeBytes);
      this.#disk = disk;
      if (disk === 'fine') logger.info({ free_bytes: freeBytes }, 'disk.fine');
      else if (disk === 'low') logger.warn({ free_bytes: freeBytes }, 'disk.low');
      else logger.error({ free_bytes: freeBytes }, `disk.${disk}`);
    } catch (error) {
      logger.warn({ error }, 'the free space of the data directory can’t be read');
    }
  }
}
