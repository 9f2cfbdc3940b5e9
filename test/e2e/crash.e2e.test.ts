import { expect, test } from 'vitest';
import { killGatewayOften } from './gateway-kills.ts';

test(
  'after each of 20 kills under mixed load the ledger has what clients were told, once',
  { timeout: 180_000 },
  async () => {
    // Bound for two loaded cores; alone it is under a second (docs/benchmarks.md).
    expect(await killGatewayOften(20)).toBeLessThan(5_000);
  },
);
