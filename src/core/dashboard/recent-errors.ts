import { type ErrorCode, errorTable } from '../../errors/error-table.ts';

const errorsMax = 10_000;
const keptMs = 3_600_000;

interface SeenError {
  readonly atMs: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly code: ErrorCode;
}

/** How often an error code was returned, and when last. */
export interface ErrorCount {
  readonly code: ErrorCode;
  readonly count: number;
  readonly lastAtMs: number;
  readonly tip: string;
}

/** Keeps the errors that callers got in the last hour in memory; if there are very many, only the latest. */
export class RecentErrors {
  readonly #now: () => number;
  #errors: SeenError[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Adds an error that a caller got. Ignores codes that are not in the table. */
  add({ accountId, keyId, code }: { readonly accountId: number; readonly keyId: number; readonly code: string }): void {
    if (!(code in errorTable)) return;
    this.#errors.push({ atMs: this.#now(), accountId, keyId, code: code as ErrorCode });
    if (this.#errors.length >= 2 * errorsMax) this.#errors = this.#errors.slice(-errorsMax);
  }

  /** Counts the errors of an account, or of one of its keys, or (if both are undefined) of all accounts. Returns them by code, most frequent first. */
  count(accountId: number | undefined, keyId: number | undefined): ErrorCount[] {
    const fromMs = this.#now() - keptMs;
    const counts = new Map<ErrorCode, ErrorCount>();
    for (const { atMs, code, ...of } of this.#errors) {
      const isOther = (accountId ?? of.accountId) !== of.accountId || (keyId ?? of.keyId) !== of.keyId;
      if (atMs < fromMs || isOther) continue;
      const count = (counts.get(code)?.count ?? 0) + 1;
      counts.set(code, { code, count, lastAtMs: atMs, tip: errorTable[code].tip });
    }
    return [...counts.values()].sort((one, other) => other.count - one.count);
  }
}
