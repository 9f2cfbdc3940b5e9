import { inject, test } from 'vitest';
import { makeEndLease, pauseGateway } from './lost-gateways.ts';
import { createDatabase } from './server.ts';

// With a lease that ends by itself: test/long/leases.test.ts.
test('a gateway that wakes after its lease ends its streams with overloaded, charges nothing of them, and goes on', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  await pauseGateway(url, makeEndLease(url));
}, 90_000);
