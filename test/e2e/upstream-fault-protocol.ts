import type { TextProtocol } from '../upstreams/text-protocol.ts';

let protocol: TextProtocol = 'chat';

/** Runs the fault suite against upstreams that speak this protocol. */
export async function testFaults(spoken: TextProtocol): Promise<void> {
  protocol = spoken;
  // The question mark makes it a module of its own, so that it runs again if files share a process.
  await import(`./upstream-fault-suite.ts?${spoken}`);
}

/** Returns the protocol of the upstreams, for the suite while it is being loaded. */
export function faultProtocol(): TextProtocol {
  return protocol;
}
