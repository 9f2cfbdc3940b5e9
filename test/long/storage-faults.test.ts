import { expect, test } from 'vitest';
import { injectFaults } from '../storage/inject-faults.ts';
import { canMakeFaults } from '../storage/storage-faults.ts';

test.runIf(canMakeFaults)(
  '200 storage faults under load lose and double nothing, damage nothing and leave nothing stuck',
  async () => {
    const { fired, lost, settled } = await injectFaults(200);
    expect(fired).toBeGreaterThan(150);
    expect(lost).toBeGreaterThan(20);
    expect(settled).toBeGreaterThan(2_000);
  },
);
