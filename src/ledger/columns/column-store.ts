import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ColumnFile } from './column-file.ts';
import { type Hours, toFingerprint, type Totals } from './totals.ts';

/** A column file of an account: its hours, and the fingerprint of their totals when it was made. */
export interface StoredColumns extends Hours {
  readonly name: string;
  readonly fingerprint: string;
}

const nameForm = /^(\d+)-(\d+)-([0-9a-f]{16})\.columns$/;
const headersMax = 4000;

/** Returns the folder of a ledger's column files. It can be removed at any time: the files are made again from the ledger. */
export function findColumnsFolder(ledgerPath: string): string {
  return join(dirname(ledgerPath), 'columns');
}

/** The column files of a ledger. */
export class ColumnStore {
  readonly #folder: string;
  readonly #headers = new Map<string, ColumnFile['known']>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns the accounts that have files. */
  listAccounts(): number[] {
    return list(this.#folder).map(Number).filter(Number.isSafeInteger);
  }

  /** Returns an account's files, by their first hour, the longest first. */
  list(accountId: number): StoredColumns[] {
    const found = list(join(this.#folder, String(accountId))).flatMap(name => {
      const [, from, to, fingerprint] = nameForm.exec(name) ?? [];
      return fingerprint === undefined ? [] : [{ name, from: Number(from), to: Number(to), fingerprint }];
    });
    return found.sort((one, other) => one.from - other.from || other.to - one.to);
  }

  /** Returns the path of the file of these hours and totals. */
  path(accountId: number, { from, to }: Hours, totals: Totals): string {
    return join(this.#folder, String(accountId), `${from}-${to}-${toFingerprint(totals)}.columns`);
  }

  /** Opens a file. Returns undefined if it no longer exists or can't be read. */
  open(accountId: number, { name }: StoredColumns): ColumnFile | undefined {
    const path = join(this.#folder, String(accountId), name);
    try {
      const file = ColumnFile.open(path, this.#headers.get(path));
      if (this.#headers.size >= headersMax) this.#headers.clear();
      this.#headers.set(path, file.known);
      return file;
    } catch {
      return undefined;
    }
  }

  remove(accountId: number, { name }: { readonly name: string }): void {
    rmSync(join(this.#folder, String(accountId), name), { force: true });
  }

  /** Removes unfinished files that an ended process has left. */
  removeDrafts(accountId: number): void {
    for (const name of list(join(this.#folder, String(accountId)))) {
      if (name.endsWith('.draft')) this.remove(accountId, { name });
    }
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
