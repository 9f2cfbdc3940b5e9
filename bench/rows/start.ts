import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Started } from '../process.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { median } from '../statistics.ts';

const main = resolve(import.meta.dirname, '../../bin/tollgate.js');

/** Starts a gateway on an existing data directory. Returns the time from the start of the process to the first answer of /readyz, in ms. */
async function readyMs(dataDir: string): Promise<number> {
  const began = performance.now();
  const started = new Started({
    args: [main, 'serve'],
    env: { TOLLGATE_DATA_DIR: dataDir, TOLLGATE_PORT: '0', TOLLGATE_RPC_PORT: '0' },
  });
  const url = await started.printed(/^\s*public\s+(http:\S+)/m);
  const { status } = await fetch(`${url}/readyz`);
  const took = performance.now() - began;
  await started.stop();
  if (status !== 200) throw new Error(`/readyz answered ${status}`);
  return took;
}

/** Measures how long a start takes. */
export async function start({ rounds }: Settings): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  try {
    const first = await readyMs(join(folder, 'data'));
    const again: number[] = [];
    for (let round = 0; round < rounds + 2; round += 1) again.push(await readyMs(join(folder, 'data')));
    const middle = median(again);
    return [
      {
        what: 'start to ready',
        measured: `${formatNumber(middle)} ms (first start, new data directory: ${formatNumber(first)} ms)`,
        target: 'under 1 s',
        reached: middle < 1000,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
