import { compare, type Run, formatRates, warmUp } from '../compare.ts';
import { allPeers, type Peer } from '../peers.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startGateway, startUpstream, type Target } from '../targets.ts';
import { measurePeerMoney } from './money.ts';

/** The targets by peer, as a multiple of the peer's answers per second; other peers are only for information. */
const targets: Readonly<Record<string, number>> = { Portkey: 5, Bifrost: 1.2 };

function formatPair(runs: readonly [Run, Run], unit: string): string {
  const [ours, theirs] = runs;
  const rates = formatRates(runs, unit);
  if (theirs.perSecond === 0) return rates;
  return `${formatNumber(ours.perSecond / theirs.perSecond)} (${rates}; CPU ${formatNumber(ours.cpuUs)} : ${formatNumber(theirs.cpuUs)} µs)`;
}

async function against(peer: Peer, [gateway, theirs]: readonly [Target, Target], settings: Settings): Promise<Row[]> {
  await warmUp(theirs, settings);
  const pair = [gateway, theirs] as const;
  const short = await compare(pair, { model: 'short', connections: 128 }, settings);
  const stream = await compare(pair, { model: 'stream', connections: 64 }, settings);
  const target = targets[peer.name];
  const ratio = short[0].perSecond / short[1].perSecond;
  return [
    {
      what: `chat whole, against ${peer.name} (accounting: ${peer.accounting})`,
      measured: formatPair(short, 'answers'),
      ...(target === undefined ? {} : { target: `at least ${target} ×`, reached: ratio >= target }),
    },
    { what: `64 streams of 200 chunks a second, against ${peer.name}`, measured: formatPair(stream, 'streams') },
  ];
}

/** Measures other gateways alternately with ours. A peer that can't be installed or started is skipped, with the reason in its row. */
export async function peers(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  const rows: Row[] = [];
  try {
    await warmUp(gateway, settings);
    for (const peer of allPeers) {
      try {
        const theirs = await peer.start(upstream);
        try {
          rows.push(...(await against(peer, [gateway, theirs], settings)));
        } finally {
          await theirs.stop();
        }
        rows.push(...(await measurePeerMoney(peer, upstream)));
      } catch (error) {
        rows.push({
          what: `against ${peer.name}`,
          measured: `skipped: ${error instanceof Error ? error.message : 'unknown'}`,
        });
      }
    }
    return rows;
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
  }
}
