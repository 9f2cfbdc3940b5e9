import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Meter } from '../load/meter.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startGateway, startUpstream } from '../targets.ts';

/** Measures the promises and allocated bytes of a whole answer, in a separate run because counting takes time. */
export async function cost({ warmUpAnswers }: Settings): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const meter = new Meter(folder);
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream, { env: meter.environment });
  try {
    const { promises, bytes } = await meter.measure(gateway.traffic('short'), {
      warmUp: warmUpAnswers,
      counted: 10_000,
    });
    return [
      {
        what: 'promises; bytes allocated on the main thread, for a whole answer',
        measured: `${formatNumber(promises)}; ${formatNumber(bytes / 1000)} kB`,
        target: 'at most 12; 65 kB',
        reached: promises <= 12 && bytes <= 65_000,
      },
    ];
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
