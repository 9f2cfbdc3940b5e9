import { warmUp } from '../compare.ts';
import { type LoadResult, openLoop } from '../load/load.ts';
import { type Row, type Settings, formatNumber, formatFailures } from '../row.ts';
import { median, percentile } from '../statistics.ts';
import { type BenchModel, type GatewayTarget, startGateway, startUpstream, type Target } from '../targets.ts';

/** The number of other accounts, and the requests per second of each. */
const neighbours = { count: 4, rate: 10 };
/** How many times as many requests the busy account sends as each other account. */
const factor = 100;
/** The target: the most that the p99 of the other accounts may grow, as a ratio to their p99 without the busy account. */
const ratioMax = 4 / 3;

/** The two loads and their model. */
interface Fairness {
  readonly gateway: GatewayTarget;
  readonly model: BenchModel;
  /** The requests of the other accounts. */
  readonly quiet: Target['traffic'];
}

/** A run without and a run with the busy account. */
interface Pair {
  readonly alone: LoadResult;
  readonly beside: LoadResult;
  readonly loud: LoadResult;
}

async function runPair({ gateway, model, quiet }: Fairness, seconds: number): Promise<Pair> {
  const neighbourly = () => openLoop(quiet(model), { rate: neighbours.count * neighbours.rate, seconds });
  const alone = await neighbourly();
  const [beside, loud] = await Promise.all([
    neighbourly(),
    openLoop(gateway.traffic(model), { rate: neighbours.rate * factor, seconds }),
  ]);
  return { alone, beside, loud };
}

async function measure(fairness: Fairness, what: string, { seconds, rounds }: Settings): Promise<Row> {
  await runPair(fairness, seconds);
  const pairs: Pair[] = [];
  for (let round = 0; round < rounds; round += 1) pairs.push(await runPair(fairness, seconds));
  const p99 = (runs: readonly LoadResult[]): number => median(runs.map(({ endMs }) => percentile(endMs, 0.99)));
  const ratios = pairs.map(({ alone, beside }) => percentile(beside.endMs, 0.99) / percentile(alone.endMs, 0.99));
  const ratio = median(ratios);
  const [alone, beside] = [p99(pairs.map(pair => pair.alone)), p99(pairs.map(pair => pair.beside))];
  const spread = `${formatNumber(Math.min(...ratios))}–${formatNumber(Math.max(...ratios))}`;
  const rate = median(pairs.map(({ loud }) => loud.answers / loud.seconds));
  const failures = pairs.flatMap(pair => [pair.alone, pair.beside]).map(run => formatFailures(run.failures));
  return {
    what,
    measured: `${formatNumber(ratio)} (${spread}; ${formatNumber(beside)} : ${formatNumber(alone)} ms beside ${formatNumber(rate)} answers a second${failures.join('')})`,
    target: `at most ${formatNumber(ratioMax)}`,
    reached: ratio <= ratioMax,
  };
}

/** Measures how long requests take while another account sends a hundred times as many. */
export async function fairness(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  try {
    await warmUp(gateway, settings);
    const quiet = await gateway.addAccounts(neighbours.count);
    const what = `p99 of ${neighbours.count} accounts beside one with ${factor} times the requests, to alone`;
    return [
      await measure({ gateway, quiet, model: 'first' }, `${what}; a stream of 20 ms`, settings),
      await measure({ gateway, quiet, model: 'short' }, 'the same, a model that answers at once', settings),
    ];
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
  }
}
