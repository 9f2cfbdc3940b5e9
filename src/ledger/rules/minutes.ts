import { minuteMs } from './calendar.ts';

/**
 * Rolling minutes as data: the admissions of an owner, ascending, one number for each millisecond that has some: `time * 4096 + count - 1`. An admission
 * counts while it is younger than 60 s, also if it is later than now because the clock stepped back. Times are exact while few enough; beyond that each
 * counts as the end of its quarter second, so that it leaves after 60 to 60.25 s. Those that have left stay while there is room, for a clock that steps
 * back. Source: decisions §6.
 */
export type Admissions = Float64Array<ArrayBuffer>;

const countMax = 4096;
/** Above it, those that have left are dropped, the oldest first. */
const roomFor = 128;
/** Above it, times are rounded up to the quantum: 60 s are 240 of them. */
const exactMax = 240;
const quantumMs = 250;
/** More can only come from a clock that stepped back: the latest are then merged. */
const most = 2 * exactMax;
/** A rolling minute opens at most this long after it is asked about, also when the clock has stepped back. */
const waitMaxMs = minuteMs + 1000;

const timeOf = (packed: number): number => Math.floor(packed / countMax);
const countOf = (packed: number): number => (packed % countMax) + 1;

/** Returns how many admissions count now. */
export function countAdmissions(admissions: Admissions | undefined, nowMs: number): number {
  let count = 0;
  for (let at = (admissions?.length ?? 0) - 1; admissions !== undefined && at >= 0; at--) {
    const packed = admissions[at] ?? 0;
    if (timeOf(packed) <= nowMs - minuteMs) break;
    count += countOf(packed);
  }
  return count;
}

/** Returns when fewer than `max` will count; if fewer do, when the next one leaves, or now if there is none. At most 61 s from now. */
export function opensAtMs(admissions: Admissions | undefined, max: number, nowMs: number): number {
  let leaving = Math.max(1, countAdmissions(admissions, nowMs) - max + 1);
  for (const packed of admissions ?? []) {
    const time = timeOf(packed);
    if (time <= nowMs - minuteMs) continue;
    leaving -= countOf(packed);
    if (leaving <= 0) return Math.min(time + minuteMs, nowMs + waitMaxMs);
  }
  return nowMs;
}

/** Returns the admissions with one more, at `nowMs`. */
export function withAdmission(admissions: Admissions | undefined, nowMs: number): Admissions {
  const before = admissions ?? new Float64Array(0);
  let place = before.length;
  while (place > 0 && timeOf(before[place - 1] ?? 0) > nowMs) place--;
  const last = before[place - 1] ?? 0;
  if (timeOf(last) === nowMs && countOf(last) < countMax) {
    const after = before.slice();
    after[place - 1] = last + 1;
    return after;
  }
  const left = before.length < roomFor ? 0 : countLeft(before, nowMs);
  const after = new Float64Array(before.length + 1 - left);
  after.set(before.subarray(left, place), 0);
  after[place - left] = nowMs * countMax;
  after.set(before.subarray(place), place - left + 1);
  return after.length > exactMax ? rounded(after) : after;
}

/** Returns how many of the oldest can be dropped to make room. */
function countLeft(admissions: Admissions, nowMs: number): number {
  const tooMany = admissions.length + 1 - roomFor;
  let left = 0;
  while (left < tooMany && timeOf(admissions[left] ?? 0) <= nowMs - minuteMs) left++;
  return left;
}

function rounded(admissions: Admissions): Admissions {
  const merged: number[] = [];
  const add = (time: number, count: number): void => {
    const last = merged.at(-1);
    const isFull = last === undefined || timeOf(last) !== time || countOf(last) + count > countMax;
    if (isFull) merged.push(time * countMax + count - 1);
    else merged[merged.length - 1] = last + count;
  };
  for (const packed of admissions) add(Math.ceil(timeOf(packed) / quantumMs) * quantumMs, countOf(packed));
  while (merged.length > most) {
    const [latest = 0, before = 0] = [merged.pop(), merged.pop()];
    add(timeOf(latest), Math.min(countOf(before) + countOf(latest), countMax));
  }
  return Float64Array.from(merged);
}
