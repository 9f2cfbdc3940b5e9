/** Every fault of upstreams that speak Responses, for callers of every kind. */
import { faultsOf } from './upstream-fault-protocol.ts';

faultsOf('responses');
await import('./upstream-fault-suite.ts');
