/** Every fault of upstreams that speak Responses, for callers of every kind. */
import { testFaults } from './upstream-fault-protocol.ts';

testFaults('responses');
await import('./upstream-fault-suite.ts');
