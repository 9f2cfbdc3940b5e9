import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../load/connection.ts';
import { closedLoop, openAll } from '../load/load.ts';
import { type Row, type Settings, formatNumber, formatFailures } from '../row.ts';
import { type BenchModel, type GatewayTarget, startGateway, startUpstream, type Target } from '../targets.ts';

/** Time for buffers to fill and for garbage to be collected. */
const settleMs = 4000;
/** Numbers of clients that never read; the upstream sends 200 MB to each. After the first ones, the memory of each further one is measured. */
const stuckClients = { first: 20, more: 80 };

async function openStreams(target: Target, model: BenchModel, count: number): Promise<Connection[]> {
  const traffic = target.traffic(model);
  const open = await openAll(traffic, count, () => undefined);
  for (const [index, connection] of open.entries()) {
    const request = traffic.requests[index % traffic.requests.length];
    if (request !== undefined) connection.send(request, () => undefined);
    if (model === 'flood') connection.pause();
    // A burst of thousands of first requests would measure something else.
    if (index % 100 === 99) await sleep(100);
  }
  await sleep(settleMs);
  return open;
}

/** Starts a gateway for a single measurement, because a process seldom gives memory back. */
async function withGateway<T>(upstream: Target, measure: (gateway: GatewayTarget) => Promise<T>): Promise<T> {
  const gateway = await startGateway(upstream);
  try {
    return await measure(gateway);
  } finally {
    await gateway.stop();
  }
}

/** Returns the memory that each further client that never reads takes, in MB. */
async function measureStuck(gateway: GatewayTarget): Promise<number> {
  const first = await openStreams(gateway, 'flood', stuckClients.first);
  const before = gateway.process.residentMb();
  const more = await openStreams(gateway, 'flood', stuckClients.more);
  const each = (gateway.process.residentMb() - before) / stuckClients.more;
  for (const connection of [...first, ...more]) connection.close();
  return each;
}

async function measureStreams(gateway: GatewayTarget): Promise<Row[]> {
  const thousand = await openStreams(gateway, 'idle', 1000);
  const withThousand = gateway.process.residentMb();
  const more = await openStreams(gateway, 'idle', 4000);
  const eachKb = ((gateway.process.residentMb() - withThousand) / more.length) * 1000;
  for (const connection of [...thousand, ...more]) connection.close();
  return [
    {
      what: 'memory with 1,000 open idle streams',
      measured: `${formatNumber(withThousand)} MB`,
      target: 'under 250 MB',
      reached: withThousand < 250,
    },
    {
      what: 'memory of each further open stream, up to 5,000',
      measured: `${formatNumber(eachKb)} kB`,
      target: 'under 60 kB',
      reached: eachKb < 60,
    },
  ];
}

/** Measures the memory of an idle gateway, and after a minute of saturation with whole answers and with streams. */
async function measureSaturated(gateway: GatewayTarget, seconds: number): Promise<Row[]> {
  await sleep(settleMs);
  const idleMb = gateway.process.residentMb();
  const saturate = async (model: BenchModel): Promise<{ mb: number; failures: string }> => {
    const { failures } = await closedLoop(gateway.traffic(model), { connections: 128, seconds });
    return { mb: gateway.process.residentMb(), failures: formatFailures(failures) };
  };
  const whole = await saturate('short');
  const streamed = await saturate('burst');
  return [
    { what: 'memory idle', measured: `${formatNumber(idleMb)} MB`, target: 'under 150 MB', reached: idleMb < 150 },
    {
      what: `memory after ${seconds} s of saturation with whole answers, then after the same time with streams of 40 deltas`,
      measured: `${formatNumber(whole.mb)}, ${formatNumber(streamed.mb)} MB${whole.failures}${streamed.failures}`,
      target: 'under 300 MB',
      reached: Math.max(whole.mb, streamed.mb) < 300,
    },
  ];
}

/** Measures resident memory: idle, saturated, with open streams, and with clients that never read. */
export async function memory({ saturationSeconds }: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  try {
    const saturated = await withGateway(upstream, gateway => measureSaturated(gateway, saturationSeconds));
    const streams = await withGateway(upstream, measureStreams);
    const stuckMb = await withGateway(upstream, measureStuck);
    const stuck: Row = {
      what: 'memory of each client that is sent 200 MB and never reads',
      measured: `${formatNumber(stuckMb)} MB`,
      target: 'under 1 MB',
      reached: stuckMb < 1,
    };
    return [...saturated, ...streams, stuck];
  } finally {
    await upstream.stop();
  }
}
