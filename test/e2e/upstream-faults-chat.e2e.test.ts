/** Every fault of upstreams that speak Chat, for callers of every kind. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('chat');
