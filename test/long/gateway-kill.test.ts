import { expect, test } from 'vitest';
import { killGatewayOften } from '../e2e/gateway-kills.ts';

test('after each of 200 kills under mixed load the ledger has what clients were told, once, and the gateway is ready in under a second', async () => {
  expect(await killGatewayOften(200)).toBeLessThan(1_000);
});
