import { compare, formatRates, formatThreads, warmUp } from '../compare.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startGateway, startUpstream } from '../targets.ts';
import { postgres } from './postgres.ts';

/** Measures the CPU time of an answer in the two setups for more load (docs/growth.md): with workers, and with PostgreSQL. */
export async function growth(settings: Settings): Promise<Row[]> {
  return [...(await workers(settings)), ...(await postgres(settings))];
}

/** Measures the CPU time of an answer with two workers, compared with a gateway without workers; both run on the same core. */
async function workers(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const two = await startGateway(upstream, { env: { TOLLGATE_WORKERS: '2' } });
  const one = await startGateway(upstream);
  try {
    await warmUp(one, settings);
    // As many answers for each event loop, because each compiles its own code.
    await warmUp(two, { ...settings, warmUpAnswers: settings.warmUpAnswers * 2 });
    const runs = await compare([two, one], { model: 'short', connections: 128 }, settings);
    const [withWorkers, withoutWorkers] = runs;
    const ratio = withWorkers.cpuUs / withoutWorkers.cpuUs;
    return [
      {
        what: 'CPU of a whole chat answer, 2 workers ÷ no workers',
        measured: `${formatNumber(ratio)} (${formatNumber(withWorkers.cpuUs)} : ${formatNumber(withoutWorkers.cpuUs)} µs; ${formatRates(runs, 'answers')})`,
        target: 'at most 1.1',
        reached: ratio <= 1.1,
      },
      { what: '… with 2 workers, by thread, µs', measured: formatThreads(withWorkers) },
      { what: '… without workers, by thread, µs', measured: formatThreads(withoutWorkers) },
    ];
  } finally {
    for (const target of [one, two, upstream]) await target.stop();
  }
}
