import type { FaultProtocol } from './upstream-wires.ts';

/** Which protocol the upstreams of the fault suite speak: said before the suite is imported. */
let protocol: FaultProtocol = 'chat';

/** From now on upstreams speak it. */
export function testFaults(spoken: FaultProtocol): void {
  protocol = spoken;
}

/** What they speak. */
export function faultProtocol(): FaultProtocol {
  return protocol;
}
