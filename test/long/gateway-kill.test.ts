import { expect, test } from 'vitest';
import { killGatewayOften } from '../e2e/gateway-kills.ts';

test('after each of 200 kills under mixed load the ledger has each charge that clients received exactly once, and the gateway is soon ready', async () => {
  const readyMs = await killGatewayOften(200);
  console.log(`ready after a kill: median ${readyMs[100]} ms, slowest ${readyMs.at(-1)} ms`);
  expect(readyMs).toHaveLength(200);
  expect(readyMs[100]).toBeLessThan(2_000);
});
