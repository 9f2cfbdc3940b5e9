/** Every fault of upstreams that speak Responses, with clients of every interface. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('responses');
