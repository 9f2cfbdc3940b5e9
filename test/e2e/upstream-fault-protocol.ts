/** Which protocol the upstreams of the fault suite speak: said before the suite is imported. */
let protocol: 'chat' | 'messages' | 'gemini' = 'chat';

/** From now on upstreams speak it. */
export function faultsOf(spoken: typeof protocol): void {
  protocol = spoken;
}

/** What they speak. */
export function faultProtocol(): typeof protocol {
  return protocol;
}
