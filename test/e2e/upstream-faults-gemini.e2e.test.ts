/** Every fault of upstreams that speak Gemini, with clients of every interface. */
import { testFaults } from './upstream-fault-protocol.ts';

await testFaults('gemini');
