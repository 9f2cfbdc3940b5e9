import { expect, test } from 'vitest';
import { ReasoningEffort } from '../gen/tollgate/v1/request_pb.ts';
import { toEffort } from './effort.ts';

test.each([
  [1_024, ReasoningEffort.LOW],
  [2_560, ReasoningEffort.LOW],
  [2_561, ReasoningEffort.MEDIUM],
  [10_240, ReasoningEffort.MEDIUM],
  [10_241, ReasoningEffort.HIGH],
  [24_576, ReasoningEffort.HIGH],
  [24_577, ReasoningEffort.XHIGH],
  [1_000_000, ReasoningEffort.XHIGH],
])('a budget of %s is nearest to the effort %s; of two as near, the lower (EF-05)', (tokens, effort) => {
  expect(toEffort(tokens)).toBe(effort);
});
