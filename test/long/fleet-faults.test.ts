import { expect, test } from 'vitest';
import { type FaultKind, faultFleet } from '../postgres/fleet-faults.ts';
import { hasPostgres } from '../postgres/server.ts';

/** The number of faults; the environment variable `FAULTS` changes it. */
const times = Number(process.env['FAULTS'] ?? 100);

const kinds: readonly FaultKind[] = ['kill', 'crash', 'proxy', 'pause', 'clock'];

test.runIf(hasPostgres).each(kinds)(
  `three gateways on one PostgreSQL, ${times} faults (%s) under a mixed load: nothing is lost, doubled, negative or stuck`,
  async kind => {
    const report = await faultFleet(kind, times);
    console.log(`${kind}, ${times} times: ${JSON.stringify(report)}`);
    expect(report.answers).toBeGreaterThan(0);
  },
);
