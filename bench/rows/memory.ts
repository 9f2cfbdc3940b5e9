import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../load/connection.ts';
import { openAll } from '../load/load.ts';
import { type Row, shown } from '../row.ts';
import { type BenchModel, startGateway, startUpstream, type Target } from '../targets.ts';

/** Time for buffers to fill and the collector to have come by. */
const settleMs = 4000;
/** Clients that never read; each is sent 200 MB by the upstream. The first ones show what the load itself costs, the others what each costs. */
const stuckClients = { first: 20, more: 80 };

async function openStreams(target: Target, model: BenchModel, count: number): Promise<Connection[]> {
  const aim = target.aim(model);
  const open = await openAll(aim, count, () => undefined);
  for (const [index, connection] of open.entries()) {
    const request = aim.requests[index % aim.requests.length];
    if (request !== undefined) connection.send(request, () => undefined);
    if (model === 'flood') connection.pause();
    // A burst of thousands of first requests is another measurement.
    if (index % 100 === 99) await sleep(100);
  }
  await sleep(settleMs);
  return open;
}

/** What one more of such clients costs, of a gateway that has some already. */
async function stuckMb(upstream: Target): Promise<number> {
  const gateway = await startGateway(upstream);
  try {
    const first = await openStreams(gateway, 'flood', stuckClients.first);
    const before = gateway.process.residentMb();
    const more = await openStreams(gateway, 'flood', stuckClients.more);
    const each = (gateway.process.residentMb() - before) / stuckClients.more;
    for (const connection of [...first, ...more]) connection.close();
    return each;
  } finally {
    await gateway.stop();
  }
}

/** Resident memory with open streams, and with clients that never read. */
export async function memory(): Promise<Row[]> {
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  try {
    const one = await openStreams(gateway, 'idle', 1);
    const withOne = gateway.process.residentMb();
    const thousand = await openStreams(gateway, 'idle', 999);
    const withThousand = gateway.process.residentMb();
    const more = await openStreams(gateway, 'idle', 4000);
    const withFiveThousand = gateway.process.residentMb();
    for (const connection of [...one, ...thousand, ...more]) connection.close();
    const each = await stuckMb(upstream);
    return [
      { what: 'memory with 1 open stream', found: `${shown(withOne)} MB` },
      {
        what: 'memory with 1,000 open idle streams',
        found: `${shown(withThousand)} MB`,
        target: 'under 250 MB',
        reached: withThousand < 250,
      },
      {
        what: 'memory with 5,000 open idle streams',
        found: `${shown(withFiveThousand)} MB`,
        target: 'under 600 MB',
        reached: withFiveThousand < 600,
      },
      {
        what: 'each client that never reads 200 MB',
        found: `${shown(each)} MB`,
        target: 'under 1 MB',
        reached: each < 1,
      },
    ];
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
  }
}
