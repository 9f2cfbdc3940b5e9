import { expect, test } from 'vitest';
import { injectFaults } from './inject-faults.ts';
import { canMakeFaults } from './storage-faults.ts';

test.runIf(canMakeFaults)(
  '24 storage faults under load lose and double nothing, damage nothing and leave nothing stuck',
  async () => {
    const { fired, lost, settled } = await injectFaults(24);
    expect(fired).toBeGreaterThan(12);
    expect(lost).toBeGreaterThan(2);
    expect(settled).toBeGreaterThan(100);
  },
  120_000,
);
