/**
 * `npm run bench`: measures what `design/architecture.md` promises and prints it as one table. Options: `--only NAME` (repeatable; the names below),
 * `--seconds N` (length of a run), `--rounds N` (how often each is run), `--warm-up N` (seconds of load before), `--peers`
 * (adds another gateway). docs/benchmarks.md says how to read it.
 */
import { parseArgs } from 'node:util';
import { benchLedger } from './ledger.ts';
import { pinSelf } from './process.ts';
import { type Row, type Settings, table } from './row.ts';
import { accounts } from './rows/accounts.ts';
import { chain } from './rows/chain.ts';
import { latency } from './rows/latency.ts';
import { memory } from './rows/memory.ts';
import { start } from './rows/start.ts';
import { throughput } from './rows/throughput.ts';

const ledger = ({ seconds }: Settings): Row[] => benchLedger(seconds);
const benches: Readonly<Record<string, (settings: Settings) => Promise<Row[]> | Row[]>> = {
  throughput,
  latency,
  memory,
  chain,
  start,
  ledger,
  accounts,
};

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: Object.keys(benches) },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '5' },
    'warm-up': { type: 'string', default: '15' },
    peers: { type: 'boolean', default: false },
  },
});
const settings: Settings = {
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  warmUpSeconds: Number(values['warm-up']),
  peers: values.peers,
};

pinSelf(1);
const rows: Row[] = [];
for (const name of values.only) {
  const bench = benches[name];
  if (bench === undefined) throw new Error(`--only ${name}: the benches are ${Object.keys(benches).join(', ')}`);
  process.stderr.write(`${name} …\n`);
  rows.push(...(await bench(settings)));
}
process.stdout.write(`${table(rows)}\n`);
