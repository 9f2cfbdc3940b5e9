import type { FaultProtocol } from './upstream-wires.ts';

/** The protocol of the upstreams in the fault suite: set before the suite is imported. */
let protocol: FaultProtocol = 'chat';

/** Sets the protocol of the upstreams. */
export function testFaults(spoken: FaultProtocol): void {
  protocol = spoken;
}

/** Returns the protocol of the upstreams. */
export function faultProtocol(): FaultProtocol {
  return protocol;
}
