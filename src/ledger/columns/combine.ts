import { dayMs, hourMs } from '../rules/calendar.ts';
import { absent, type AmountName, amountNames, type ColumnContent, type DimensionName } from './column-file.ts';

/** What distinguishes combined rows, besides the day: all but the end user, of whom there can be as many as records. */
const keptNames = [
  'key',
  'model',
  'provider',
  'endpoint',
  'tags',
  'groups',
  'pocket',
] as const satisfies DimensionName[];

/** Returns the records of some hours added up by UTC day and everything but the end user, in the form of records; undefined if fewer than `recordsMin` of them make one on average. */
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

/** Returns for each row the place of its combination of numbers, and for each place the first row that has it. Places are in the order in which combinations appear. */
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
