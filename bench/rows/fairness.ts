import { warmUp } from '../compare.ts';
import { ClientProcess } from '../load/client-process.ts';
import { type LoadResult, openLoop, type Traffic } from '../load/load.ts';
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
  readonly upstream: Target;
  /** Sends the requests of the other accounts. It is a separate process, because in one process with the busy account's client they would wait for that client, too. */
  readonly client: ClientProcess;
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

async function runPair(client: ClientProcess, quiet: Traffic, loud: Traffic, seconds: number): Promise<Pair> {
  const neighbourly = () => client.openLoop(quiet, { rate: neighbours.count * neighbours.rate, seconds });
  const alone = await neighbourly();
  const busy = openLoop(loud, { rate: neighbours.rate * factor, seconds });
  const [beside, answered] = await Promise.all([neighbourly(), busy]);
  return { alone, beside, loud: answered };
}

/** Returns the p99 of all runs together. A run has too few requests for one: the second slowest of 200. */
function pooledP99(runs: readonly LoadResult[]): number {
  const all = runs.flatMap(({ endMs }) => [...endMs]).sort((a, b) => a - b);
  return percentile(all, 0.99);
}

async function measure(fairness: Fairness, what: string, { seconds, rounds }: Settings): Promise<Row> {
  const { gateway, upstream, client, model, quiet } = fairness;
  const run = () => runPair(client, quiet(model), gateway.traffic(model), seconds);
  await run();
  const pairs: Pair[] = [];
  const direct: Pair[] = [];
  for (let round = 0; round < rounds; round += 1) {
    pairs.push(await run());
    direct.push(await runPair(client, upstream.traffic(model), upstream.traffic(model), seconds));
  }
  const times = (those: readonly Pair[]) => {
    const [alone, beside] = [pooledP99(those.map(pair => pair.alone)), pooledP99(those.map(pair => pair.beside))];
    return { ratio: beside / alone, text: `${formatNumber(beside)} : ${formatNumber(alone)} ms` };
  };
  const { ratio, text } = times(pairs);
  const ratios = pairs.map(pair => times([pair]).ratio);
  const spread = `${formatNumber(Math.min(...ratios))}–${formatNumber(Math.max(...ratios))}`;
  const rate = median(pairs.map(({ loud }) => loud.answers / loud.seconds));
  const failures = pairs.flatMap(pair => [pair.alone, pair.beside]).map(each => formatFailures(each.failures));
  return {
    what,
    measured: `${formatNumber(ratio)} (single runs ${spread}; ${text} beside ${formatNumber(rate)} answers a second; without a gateway ${times(direct).text}${failures.join('')})`,
    target: `at most ${formatNumber(ratioMax)}`,
    reached: ratio <= ratioMax,
  };
}

/** Measures how long requests take while another account sends a hundred times as many. */
export async function fairness(settings: Settings): Promise<Row[]> {
  return [...(await measureGateway(settings, true)), ...(await measureGateway(settings, false))];
}

/** `isSpread`: the gateway's threads may use both cores; otherwise all are on one, which is nearly full. */
async function measureGateway(settings: Settings, isSpread: boolean): Promise<Row[]> {
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream, { isSpread });
  const client = new ClientProcess();
  try {
    await warmUp(gateway, settings);
    const quiet = await gateway.addAccounts(neighbours.count);
    const cores = isSpread ? 'threads on two cores' : 'all on one core';
    const what = `p99 of ${neighbours.count} accounts beside one with ${factor} times the requests, to alone; ${cores}`;
    const parts = { gateway, upstream, client, quiet };
    return [
      await measure({ ...parts, model: 'late' }, `${what}, a stream of 300 ms`, settings),
      await measure({ ...parts, model: 'first' }, `the same, a stream of 20 ms`, settings),
      await measure({ ...parts, model: 'short' }, 'the same, a model that answers at once', settings),
    ];
  } finally {
    client.close();
    for (const target of [gateway, upstream]) await target.stop();
  }
}
