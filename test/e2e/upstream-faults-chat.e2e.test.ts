/** Every fault of upstreams that speak Chat, for callers of every kind. */
import { faultsOf } from './upstream-fault-protocol.ts';

faultsOf('chat');
await import('./upstream-fault-suite.ts');
