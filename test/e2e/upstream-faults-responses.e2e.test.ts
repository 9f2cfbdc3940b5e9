/** Every fault of upstreams that speak Responses, for callers of every kind. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('responses');
