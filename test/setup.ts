/** Runs before every test file, also if files share a process and the modules that they import. */
import { afterAll, expect } from 'vitest';
import { unverified } from './unverified.ts';

// This is left over from a file whose last hook failed.
unverified.clear();
// Registered first, so that it runs last.
afterAll(() => {
  const left = [...unverified];
  unverified.clear();
  expect(left, 'a test file ends its gateways with endGateway, or looks with expectVerified').toEqual([]);
});
