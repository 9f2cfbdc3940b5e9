import { afterEach, test } from 'vitest';
import { closeDatabase, failAtSteps, faultPlans } from '../ledger/engine-fault-steps.ts';

afterEach(closeDatabase);

test.each(faultPlans)(
  'after a failure ($kind, $times times in a row) at any $point, sending the commands again has the same result as without the failure',
  plan => failAtSteps(plan, { from: 1, by: 1 }),
);
