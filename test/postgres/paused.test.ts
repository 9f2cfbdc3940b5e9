import { inject, test } from 'vitest';
import { makeEndLease, pauseGateway } from './lost-gateways.ts';
import { createDatabase } from './server.ts';

// In `test/long/leases.test.ts` the lease ends by itself.
test('a gateway that resumes after the end of its lease ends its streams with `overloaded`, charges nothing for them, and continues', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  await pauseGateway(url, makeEndLease(url));
}, 90_000);
