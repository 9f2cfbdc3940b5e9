/** Every fault of upstreams that speak Gemini, for callers of every kind. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('gemini');
