/** Every fault of upstreams that speak Messages, for callers of every kind. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('messages');
