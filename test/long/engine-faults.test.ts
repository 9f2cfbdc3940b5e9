import { afterEach, test } from 'vitest';
import { closeDatabase, failAtSteps, faultPlans } from '../ledger/engine-fault-steps.ts';

afterEach(closeDatabase);

test.each(faultPlans)(
  'whichever $point fails with $kind ($times in a row), sending the commands again ends as if nothing had failed',
  plan => failAtSteps(plan, { from: 1, by: 1 }),
);
