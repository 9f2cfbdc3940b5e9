/** Every fault of upstreams that speak Gemini, for callers of every kind. */
import { faultsOf } from './upstream-fault-protocol.ts';

faultsOf('gemini');
await import('./upstream-fault-suite.ts');
