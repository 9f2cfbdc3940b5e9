/**
 * `npm run bench` measures the gateway from outside, and its ledger alone in this process, and prints a table. docs/benchmarks.md lists the options and explains the table.
 */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { writeResults } from './document.ts';
import { benchLedger } from './ledger.ts';
import { pinSelf } from './process.ts';
import { type LoadedRow, type Row, type Settings, table } from './row.ts';
import { accounts } from './rows/accounts.ts';
import { chain } from './rows/chain.ts';
import { cost } from './rows/cost.ts';
import { fairness } from './rows/fairness.ts';
import { growth } from './rows/growth.ts';
import { latency } from './rows/latency.ts';
import { memory } from './rows/memory.ts';
import { money } from './rows/money.ts';
import { peers } from './rows/peers.ts';
import { profile } from './rows/profile.ts';
import { start } from './rows/start.ts';
import { telemetry } from './rows/telemetry.ts';
import { throughput } from './rows/throughput.ts';

const ledger = ({ seconds }: Settings): Row[] => benchLedger(seconds);
const benches: Readonly<Record<string, (settings: Settings) => Promise<Row[]> | Row[]>> = {
  throughput,
  cost,
  latency,
  memory,
  money,
  chain,
  start,
  ledger,
  accounts,
  fairness,
  growth,
  telemetry,
  profile,
  peers,
};
/** Benchmarks that run only on request. */
const onRequestOnly = ['accounts', 'fairness', 'growth', 'peers', 'telemetry'];

const { values } = parseArgs({
  options: {
    only: {
      type: 'string',
      multiple: true,
      default: Object.keys(benches).filter(name => !onRequestOnly.includes(name)),
    },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '5' },
    'warm-up': { type: 'string', default: '100000' },
    saturation: { type: 'string', default: '60' },
    peers: { type: 'boolean', default: false },
    write: { type: 'string' },
  },
});
const settings: Settings = {
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  warmUpAnswers: Number(values['warm-up']),
  saturationSeconds: Number(values.saturation),
};

pinSelf(1);
const rows: LoadedRow[] = [];
for (const name of values.peers ? [...values.only, 'peers'] : values.only) {
  const bench = benches[name];
  if (bench === undefined) throw new Error(`--only ${name}: the benchmarks are ${Object.keys(benches).join(', ')}`);
  process.stderr.write(`${name} …\n`);
  const measuredRows = await bench(settings);
  const load = loadavg()[0] ?? 0;
  rows.push(...measuredRows.map(row => ({ ...row, load })));
}
process.stdout.write(`${table(rows)}\n`);
if (values.write !== undefined) writeResults(values.write, table(rows));
