import { dayMs, hourMs } from '../rules/calendar.ts';
import { absent, type AmountName, amountNames, type ColumnContent, type DimensionName } from './column-file.ts';

/** The dimensions by which records of a day are combined: all except the end user, because there can be as many end users as records. */
const keptNames = [
  'key',
  'model',
  'provider',
  'endpoint',
  'tags',
  'groups',
  'pocket',
] as const satisfies DimensionName[];

/** Returns rows that each combine the records of a UTC day that differ at most in the end user; undefined if a row would combine fewer than `recordsMin` records on average. */
export function combineRecords(content: ColumnContent, recordsMin: number): ColumnContent | undefined {
  const { from, offsetsMs, dimensions, amounts } = content;
  const days = offsetsMs.map(offset => Math.floor((from * hourMs + offset) / dayMs));
  const { places, firstRows } = findPlaces([days, ...keptNames.map(name => dimensions[name])]);
  const count = firstRows.length;
  if (count * recordsMin > offsetsMs.length) return undefined;
  const pick = (column: Float64Array): Float64Array => Float64Array.from(firstRows, row => column[row] ?? 0);
  const sum = (column: Float64Array): Float64Array => {
    const sums = new Float64Array(count);
    for (const [row, place] of places.entries()) sums[place] = (sums[place] ?? 0) + (column[row] ?? 0);
    return sums;
  };
  const kept = Object.fromEntries(keptNames.map(name => [name, pick(dimensions[name])]));
  return {
    ...content,
    offsetsMs: pick(days).map(day => Math.max(0, day * dayMs - from * hourMs)),
    dimensions: { ...kept, end_user: new Float64Array(count).fill(absent) } as Record<DimensionName, Float64Array>,
    amounts: Object.fromEntries(amountNames.map(name => [name, sum(amounts[name])])) as Record<
      AmountName,
      Float64Array
    >,
  };
}

/** Numbers the combinations of numbers in the order in which they first appear. Returns the number (`places`) for each row, and the first row for each number. */
function findPlaces(columns: readonly Float64Array[]): { places: Float64Array; firstRows: number[] } {
  let places = new Float64Array(columns[0]?.length ?? 0);
  let firstRows: number[] = [];
  for (const column of columns) {
    const codes = new Map<number, number>();
    const known = new Map<number, number>();
    firstRows = [];
    // Fits a double: there are fewer rows than 2^26 in a file.
    const factor = column.length + 1;
    places = places.map((place, row) => {
      const number = column[row] ?? 0;
      let code = codes.get(number);
      if (code === undefined) codes.set(number, (code = codes.size));
      const combination = place * factor + code;
      let found = known.get(combination);
      if (found === undefined) {
        known.set(combination, (found = known.size));
        firstRows.push(row);
      }
      return found;
    });
  }
  return { places, firstRows };
}
