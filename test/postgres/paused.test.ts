import { inject, test } from 'vitest';
import { makeEndLease, pauseGateway } from './lost-gateways.ts';
import { createDatabase } from './server.ts';

// With a lease that ends by itself: test/long/leases.test.ts.
test('a gateway that resumes after its lease has ended ends its streams with overloaded, charges nothing for them, and continues', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  await pauseGateway(url, makeEndLease(url));
}, 90_000);
