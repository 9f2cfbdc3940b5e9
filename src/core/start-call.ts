import { toGatewayError } from '../errors/gateway-error.ts';
import type { Sink, StreamControl } from '../lib/push.ts';
import { StartingCall } from './generation/starting-call.ts';

/** Starts a call that waits for something before there is a stream to control. What `begin` rejects with ends `sink`, which must not have ended then. */
export function startCall<Message>(sink: Sink<Message>, begin: (call: StartingCall) => Promise<void>): StreamControl {
  const call = new StartingCall();
  begin(call).catch((thrown: unknown) => sink.end(toGatewayError(thrown)));
  return call;
}
