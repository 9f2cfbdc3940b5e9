/** Plays a folder of recorded exchanges and prints how many came out as the provider sent them: `npm run test:recorded -- FOLDER [--id ID]`. */
import { parseArgs } from 'node:util';
import { type Exchange, readExchanges } from './exchange.ts';
import { playExchange } from './play.ts';
import { Report } from './report.ts';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { id: { type: 'string' } } });
const [folder] = positionals;
if (folder === undefined) {
  process.stderr.write('usage: npm run test:recorded -- FOLDER [--id ID]\n');
  process.exitCode = 2;
} else await play(folder, values.id);

/** `id`: plays only this exchange, and prints each of its differences. */
async function play(from: string, id: string | undefined): Promise<void> {
  const report = new Report();
  for await (const exchange of readExchanges(from)) {
    if (id !== undefined && exchange.id !== id) continue;
    const plays = await playExchange(exchange);
    report.add(exchange, plays);
    if (id !== undefined) print(exchange, plays);
  }
  process.stdout.write(report.text());
}

function print({ source }: Exchange, plays: Awaited<ReturnType<typeof playExchange>>): void {
  process.stdout.write(`${source}\n`);
  for (const { way, differences } of plays ?? []) {
    for (const { what, want, got } of differences) {
      process.stdout.write(`${way}: ${what}\n  want ${JSON.stringify(want)}\n  got  ${JSON.stringify(got)}\n`);
    }
  }
}
