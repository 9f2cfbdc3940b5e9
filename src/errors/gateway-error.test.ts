import { expect, test } from 'vitest';
import { GatewayError } from './gateway-error.ts';

test('an error repeats only a bounded part of the refused input', () => {
  const name = 'x'.repeat(10_000);
  const violation = { path: Array<string>(1_000).fill(name), message: name, type: 'unknown' };
  const { message, facts } = new GatewayError('validation_error', name, {
    param: name,
    violations: Array<typeof violation>(10_000).fill(violation),
  });
  expect([message.length, facts.param?.length, facts.violations?.length]).toEqual([2_001, 2_001, 100]);
  const [first] = facts.violations ?? [];
  expect([first?.path.length, first?.path[0]?.length, first?.message.length]).toEqual([64, 2_001, 2_001]);
});

test('a short value is repeated unchanged', () => {
  const violations = [{ path: ['a', '0'], message: 'must be a number', type: 'invalid_type' }];
  const { message, facts } = new GatewayError('validation_error', '`a` is wrong.', { param: 'a.0', violations });
  expect([message, facts]).toEqual(['`a` is wrong.', { param: 'a.0', violations }]);
});
