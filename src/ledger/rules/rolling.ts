import { minuteMs } from './calendar.ts';

/**
 * The amounts of a rolling minute, in order of their time of admission: three numbers each, `time, used, held`. An amount counts while it is
 * younger than 60 s, and also if it is later than now because the clock was set back. Times are exact while there are few (`exactMax`); if
 * there are more, each is rounded up to a quarter second, so that it stops counting after 60 to 60.25 s. Older amounts are kept while there is
 * room, in case the clock is set back. Amounts are exact up to 2^53. See docs/accounting.md "Windows".
 */
export type Rolling = Float64Array<ArrayBuffer>;

/** Used and held amounts. */
export interface Amounts {
  readonly used: number;
  readonly held: number;
}

const width = 3;
/** If there are more amounts than this, the ones that no longer count are dropped, the oldest first. */
const roomFor = 128;
/** If there are more amounts than this, their times are rounded up to a quarter second. A minute has 240 of these. */
const exactMax = 240;
const quantumMs = 250;
/** More rounded times than this are possible only if the clock was set back. The latest ones are merged then. */
const most = 2 * exactMax;
/** A full rolling minute has room again at most this long after it is read, even if the clock was set back. */
const waitMaxMs = minuteMs + 1000;

const ceilTime = (atMs: number): number => Math.ceil(atMs / quantumMs) * quantumMs;

/** Returns the number of times in the minute. */
export function countTimes(rolling: Rolling): number {
  return rolling.length / width;
}

/** The last result of `sumRolling`: an admission asks several times for the same minute. */
let lastSum: { readonly rolling: Rolling; readonly nowMs: number; readonly amounts: Amounts } | undefined;

/** Returns the amounts that count now. */
export function sumRolling(rolling: Rolling, nowMs: number): Amounts {
  if (lastSum?.rolling === rolling && lastSum.nowMs === nowMs) return lastSum.amounts;
  let used = 0;
  let held = 0;
  for (let at = rolling.length - width; at >= 0 && (rolling[at] ?? 0) > nowMs - minuteMs; at -= width) {
    used += rolling[at + 1] ?? 0;
    held += rolling[at + 2] ?? 0;
  }
  const amounts = { used, held };
  lastSum = { rolling, nowMs, amounts };
  return amounts;
}

/**
 * Returns the highest sum of used and held amounts in any 60 s up to now that include the admission at `atMs`. Further amounts of that
 * request must fit in addition to this sum. Times later than now count as now.
 */
export function peakRolling(rolling: Rolling, atMs: number, nowMs: number): number {
  const untilMs = Math.min(nowMs, atMs + minuteMs - 1);
  let peak = nowMs < atMs + minuteMs ? sumUp(rolling, nowMs, Number.POSITIVE_INFINITY) : 0;
  for (let at = 0; at < rolling.length; at += width) {
    const endMs = rolling[at] ?? 0;
    if (endMs >= atMs && endMs <= untilMs) peak = Math.max(peak, sumUp(rolling, endMs, endMs));
  }
  return peak;
}

/** Sums the amounts that are younger than 60 s at `atMs` and not later than `lastMs`. */
function sumUp(rolling: Rolling, atMs: number, lastMs: number): number {
  let sum = 0;
  for (let at = rolling.length - width; at >= 0 && (rolling[at] ?? 0) > atMs - minuteMs; at -= width) {
    if ((rolling[at] ?? 0) <= lastMs) sum += (rolling[at + 1] ?? 0) + (rolling[at + 2] ?? 0);
  }
  return sum;
}

/**
 * Returns when the use will be at most `fits`. If it is already, returns when the next amount stops counting, or now if there is
 * no amount. At most 61 s from now.
 */
export function opensAtMs(rolling: Rolling, fits: number, nowMs: number): number {
  const { used, held } = sumRolling(rolling, nowMs);
  let over = used + held - fits;
  for (let at = 0; at < rolling.length; at += width) {
    const time = rolling[at] ?? 0;
    const amount = (rolling[at + 1] ?? 0) + (rolling[at + 2] ?? 0);
    if (time <= nowMs - minuteMs || amount === 0) continue;
    over -= amount;
    if (over <= 0) return Math.min(time + minuteMs, nowMs + waitMaxMs);
  }
  return nowMs;
}

/** Returns the minute with the amounts of an admission added. */
export function addToRolling(before: Rolling, atMs: number, amounts: Amounts, nowMs: number): Rolling {
  // A list that is full has rounded times. Without this, each admission would be inserted and then rounded, which moves the whole list.
  const isFull = countTimes(before) >= exactMax;
  const place = findTime(before, atMs) ?? (isFull ? findTime(before, ceilTime(atMs)) : undefined);
  if (place === undefined) return insert(before, [atMs, amounts.used, amounts.held], nowMs);
  const after = raise(before, place, amounts);
  if (lastSum?.rolling !== before || lastSum.nowMs !== nowMs || (before[place] ?? 0) <= nowMs - minuteMs) return after;
  const { used, held } = lastSum.amounts;
  lastSum = { rolling: after, nowMs, amounts: { used: used + amounts.used, held: held + amounts.held } };
  return after;
}

/** Returns the minute with `change` added to the amounts of the admission at `atMs`; unchanged if those amounts were dropped. */
export function changeRolling(before: Rolling, atMs: number, change: Amounts): Rolling {
  const place = findTime(before, atMs) ?? findTime(before, ceilTime(atMs));
  return place === undefined ? before : raise(before, place, change);
}

function raise(before: Rolling, place: number, { used, held }: Amounts): Rolling {
  const after = before.slice();
  after[place + 1] = (after[place + 1] ?? 0) + used;
  after[place + 2] = (after[place + 2] ?? 0) + held;
  return after;
}

function findTime(rolling: Rolling, atMs: number): number | undefined {
  let at = rolling.length - width;
  while (at >= 0 && (rolling[at] ?? 0) > atMs) at -= width;
  return at >= 0 && rolling[at] === atMs ? at : undefined;
}

function insert(before: Rolling, added: readonly [number, number, number], nowMs: number): Rolling {
  let place = before.length;
  while (place > 0 && (before[place - width] ?? 0) > added[0]) place -= width;
  const left = Math.min(countTimes(before) < roomFor ? 0 : countLeft(before, nowMs) * width, place);
  const after = new Float64Array(before.length + width - left);
  after.set(before.subarray(left, place), 0);
  after.set(added, place - left);
  after.set(before.subarray(place), place - left + width);
  return countTimes(after) > exactMax ? rounded(after) : after;
}

/** Returns how many of the oldest amounts are to be dropped. */
function countLeft(rolling: Rolling, nowMs: number): number {
  const tooMany = countTimes(rolling) + 1 - roomFor;
  let left = 0;
  while (left < tooMany && (rolling[left * width] ?? 0) <= nowMs - minuteMs) left++;
  return left;
}

function rounded(rolling: Rolling): Rolling {
  const merged: number[] = [];
  for (let at = 0; at < rolling.length; at += width) {
    const time = ceilTime(rolling[at] ?? 0);
    const isSame = merged.at(-width) === time || merged.length >= most * width;
    if (!isSame) merged.push(time, 0, 0);
    const last = merged.length - width;
    merged[last + 1] = (merged[last + 1] ?? 0) + (rolling[at + 1] ?? 0);
    merged[last + 2] = (merged[last + 2] ?? 0) + (rolling[at + 2] ?? 0);
    if (isSame) merged[last] = time;
  }
  return Float64Array.from(merged);
}
