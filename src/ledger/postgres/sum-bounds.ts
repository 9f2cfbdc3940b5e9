import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { toArray } from '../../lib/postgres/values.ts';
import type { SumChange } from '../rows.ts';
import { toDay } from '../rules/calendar.ts';
import { codes, encode } from '../sqlite/codes.ts';
import { valuesMax } from '../sqlite/sum-table.ts';
import { MissingRow } from './missing-row.ts';

/** The usage of an end user or of a tag on a day. The number of these sums of an account is bounded. */
type BoundedSum = Pick<SumChange, 'accountId' | 'valueId'> & { readonly grouped: 'end_user' | 'tag' };

type Keys = readonly [accountId: number, grouped: number, day: number, valueId: number];

const knownMax = 100_000;
const dayPeriod = encode(codes.period, 'day');
const day = 'account_id = v.account_id AND s.grouped = v.grouped AND s.number = v.number';
const columns = 'v(account_id, grouped, number';
const arrays = '$1::bigint[], $2::smallint[], $3::bigint[]';
/** Selects those of the sums that exist. */
const presentText = `SELECT s.account_id, s.grouped, s.number, s.group_id FROM unnest(${arrays}, $4::bigint[]) AS ${columns}, group_id)
  JOIN usage_sum s ON s.${day} AND s.period = ${dayPeriod} AND s.group_id = v.group_id`;
/** Counts the sums of an account on a day. */
const countText = `SELECT v.account_id, v.grouped, v.number, (SELECT count(*) FROM usage_sum s WHERE s.${day} AND s.period = ${dayPeriod})
  FROM unnest(${arrays}) AS ${columns})`;

/**
 * Knows which sums of end users and tags the accounts of a batch have, so that no account gets more than `valuesMax` of a kind on a day. They are
 * looked up while the accounts are locked, before the batch adds sums of its own; `takeLoaded` never replaces what the batch has counted since.
 */
export class SumBounds {
  /** Committed sums; shared by all batches. Sums are never removed. */
  readonly #known: Set<string>;
  readonly #undo: (() => void)[];
  /** Sums that the database has or that this batch adds. */
  readonly #present = new Set<string>();
  readonly #absent = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #wanted = new Map<string, Keys>();

  constructor(known: Set<string>, undo: (() => void)[]) {
    this.#known = known;
    this.#undo = undo;
  }

  /** Includes a sum in the next `loadSteps`, unless it is known. */
  want({ accountId, grouped, valueId }: BoundedSum, admittedAtMs: number): void {
    const keys: Keys = [accountId, encode(codes.grouped, grouped), toDay(admittedAtMs), valueId];
    const name = keys.join(' ');
    if (!this.#known.has(name)) this.#wanted.set(name, keys);
  }

  /** Returns the statements that look up the wanted sums; none if no sum is wanted. */
  loadSteps(): Step[] {
    const wanted = [...this.#wanted.values()];
    if (wanted.length === 0) return [];
    const days = [...new Map(wanted.map(keys => [nameDay(keys), keys])).values()];
    const toArrays = (rows: readonly Keys[], count: number): string[] =>
      Array.from({ length: count }, (_, index) => toArray(rows.map(keys => keys[index] ?? 0)));
    return [
      { text: presentText, values: toArrays(wanted, 4) },
      { text: countText, values: toArrays(days, 3) },
    ];
  }

  /** Takes the results of the statements of `loadSteps`. */
  takeLoaded([present, counts]: readonly StepResult[]): void {
    const found = new Set((present?.rows ?? []).map(keys => keys.map(Number).join(' ')));
    for (const name of this.#wanted.keys()) {
      if (found.has(name)) this.#present.add(name);
      else if (!this.#present.has(name)) this.#absent.add(name);
    }
    for (const [accountId, grouped, number, count] of counts?.rows ?? []) {
      const name = nameDay([Number(accountId), Number(grouped), Number(number), 0]);
      if (!this.#counts.has(name)) this.#counts.set(name, Number(count));
    }
    this.#wanted.clear();
  }

  /** Returns true if a sum exists, or if the account may have one more, which is then counted. Throws `MissingRow` if the sum has not been looked up yet. */
  hasRoom(sum: BoundedSum, admittedAtMs: number): boolean {
    const { accountId, grouped, valueId } = sum;
    const keys: Keys = [accountId, encode(codes.grouped, grouped), toDay(admittedAtMs), valueId];
    const name = keys.join(' ');
    if (this.#known.has(name) || this.#present.has(name)) return true;
    if (!this.#absent.has(name)) {
      this.#wanted.set(name, keys);
      throw new MissingRow({ steps: this.loadSteps(), onResults: results => this.takeLoaded(results) });
    }
    const dayName = nameDay(keys);
    const count = this.#counts.get(dayName) ?? 0;
    if (count >= valuesMax) return false;
    this.#counts.set(dayName, count + 1);
    this.#present.add(name);
    this.#undo.push(() => {
      this.#present.delete(name);
      this.#counts.set(dayName, count);
    });
    return true;
  }

  /** Called when the batch has been committed. */
  finish(): void {
    if (this.#known.size + this.#present.size > knownMax) this.#known.clear();
    for (const name of this.#present) this.#known.add(name);
  }
}

function nameDay([accountId, grouped, number]: Keys): string {
  return `${accountId} ${grouped} ${number}`;
}
