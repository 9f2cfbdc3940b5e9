/** Every fault of upstreams that speak Chat, with clients of every interface. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('chat');
