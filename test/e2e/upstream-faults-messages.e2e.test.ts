/** Every fault of upstreams that speak Messages, with clients of every interface. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('messages');
