import { compare, type Run, formatOnProxyScale, formatRates, formatThreads, warmUp } from '../compare.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startGateway, startProxy, startUpstream } from '../targets.ts';

/** The number of chunks in a long stream: the deltas that `servers/upstream.ts` sends, the first event and the last one. */
const streamChunks = 502;

function formatChunks(runs: readonly [Run, Run]): string {
  const [ours, theirs] = [runs[0].cpuUs / streamChunks, runs[1].cpuUs / streamChunks];
  return `${formatNumber(theirs / ours)} (proxy ${formatNumber(theirs)}, gateway ${formatNumber(ours)} µs; gateway : proxy ${formatRates(runs, 'streams')})`;
}

/** Measures the CPU time of whole answers and of stream chunks, as ratios to the bare proxy. */
export async function throughput(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const proxy = await startProxy(upstream);
  const gateway = await startGateway(upstream);
  try {
    for (const target of [gateway, proxy]) await warmUp(target, settings);
    const pair = [gateway, proxy] as const;
    const short = await compare(pair, { model: 'short', connections: 128 }, settings);
    const words = await compare(pair, { model: 'words', connections: 128 }, settings);
    const torrent = await compare(pair, { model: 'torrent', connections: 64 }, settings);
    const stream = await compare(pair, { model: 'stream', connections: 64 }, settings);
    const ratio = ([ours, theirs]: readonly [Run, Run]): number => theirs.cpuUs / ours.cpuUs;
    return [
      {
        what: 'CPU of a whole chat answer, bare proxy ÷ gateway',
        measured: formatOnProxyScale(short),
        target: 'at least 0.5',
        reached: ratio(short) >= 0.5,
      },
      { what: '… by thread, µs', measured: formatThreads(short[0]) },
      { what: '… rate, gateway : bare proxy', measured: formatRates(short, 'answers') },
      {
        what: 'the same with an answer of 40 words',
        measured: `${formatOnProxyScale(words)}; gateway : proxy ${formatRates(words, 'answers')}`,
      },
      {
        what: 'CPU of a chunk, 64 streams at full speed, bare proxy (which does not parse) ÷ gateway',
        measured: formatChunks(torrent),
        target: 'at least 1.0',
        reached: ratio(torrent) >= 1,
      },
      { what: 'the same, each stream with a chunk every 5 ms', measured: formatChunks(stream) },
    ];
  } finally {
    for (const target of [gateway, proxy, upstream]) await target.stop();
  }
}
