/** The worked examples of docs/accounting.md, computed by the code that charges. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { costLines, sumCost, type PriceSheet } from '../../src/generation/price.ts';
import { windowAt } from '../../src/ledger/rules/calendar.ts';
import { sliceSize } from '../../src/ledger/rules/slices.ts';
import { dollarsText } from '../../src/lib/dollars.ts';

const page = readFileSync(resolve(import.meta.dirname, '../../docs/accounting.md'), 'utf8');

/** Returns the cells of the table between the comments `examples: name` and `end`, by row, without the header. */
function readExamples(name: string): string[][] {
  const [, table = ''] = new RegExp(`<!-- examples: ${name} -->([^]*?)<!-- end -->`).exec(page) ?? [];
  const rows = table.trim().split('\n').slice(2);
  expect(rows.length).toBeGreaterThan(3);
  return rows.map(row =>
    row
      .split('|')
      .slice(1, -1)
      .map(cell => cell.trim()),
  );
}

const sheet: PriceSheet = {
  input: 1_000_000n,
  cacheRead: 100_000n,
  cacheWrite5m: 1_250_000n,
  cacheWrite1h: 2_000_000n,
  output: 4_000_000n,
  image: null,
};
const factors: Readonly<Record<string, number>> = { default: 1000, flex: 500, priority: 2000 };

test.each(readExamples('cost'))('cost: %s', (...row) => {
  const [, input, cacheRead, cacheWrite5m, cacheWrite1h, output, tier = '', discount, cost] = row;
  const usage = {
    input: Number(input),
    cacheRead: Number(cacheRead),
    cacheWrite5m: Number(cacheWrite5m),
    cacheWrite1h: Number(cacheWrite1h),
    output: Number(output),
    images: 0,
  };
  const lines = costLines(usage, sheet, factors[tier] ?? Number.NaN);
  const discounted = lines.map(line => ({ ...line, discountPermille: Math.round(Number(discount) * 1000) }));
  expect(dollarsText(sumCost(discounted))).toBe(cost);
});

test.each(readExamples('slices'))('slice: %s', (...row) => {
  const [, outputTokensMax, input, runningRequests, slice] = row;
  const supply = { most: Number(outputTokensMax), input: Number(input), running: Number(runningRequests) };
  expect(sliceSize(1024, supply)).toBe(Number(slice));
});

test.each(readExamples('windows'))('window: %s in %s at %s', (...row) => {
  const [window, zone = '', at = '', begin = '', end = ''] = row;
  const found = windowAt(window as 'day', zone, Date.parse(at));
  expect([found.startMs, found.endMs]).toEqual([Date.parse(begin), Date.parse(end)]);
});

test('the documented plans are those of a gateway without a configuration file', () => {
  const { plans } = parseConfig('', '', { variables: {}, builtInIds: [] });
  const rows = Array.from(page.matchAll(/^\| (Core(?: Pro)?) \| (.+) \|$/gm), ([, name = '', rest = '']) => [
    name,
    ...rest.split(' | '),
  ]);
  const period = ({ priceNanoUsd, tokens }: { priceNanoUsd: bigint; tokens: number }): string =>
    `$${dollarsText(priceNanoUsd)}: ${tokens / 1_000_000} million tokens`;
  const shown = [['Core', plans.core] as const, ['Core Pro', plans.core_pro] as const].map(([name, plan]) => [
    name,
    period(plan.biweekly),
    period(plan.monthly),
    String(plan.freeDailyRequests),
    plan.discountPermille === 0 ? 'none' : `${plan.discountPermille / 10} %`,
  ]);
  expect(rows).toEqual(shown);
});
