/** Every fault of upstreams that speak Messages, for callers of every kind. */
import { faultsOf } from './upstream-fault-protocol.ts';

faultsOf('messages');
await import('./upstream-fault-suite.ts');
