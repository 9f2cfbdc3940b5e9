import { toGatewayError } from '../errors/gateway-error.ts';
import type { Sink, StreamControl } from '../lib/push.ts';

/**
 * Controls a call that is still being admitted: remembers whether its caller paused or cancelled it, and applies that
 * once the call has a control of its own.
 */
export class StartingCall implements StreamControl {
  #control: StreamControl | undefined;
  #isCancelled = false;
  #failure: Error | undefined;
  #isPaused = false;

  /** True if the caller cancelled the call without a failure: it has disconnected. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Passes the caller's control on to `control`, beginning with the actions so far. */
  attach(control: StreamControl): void {
    this.#control = control;
    if (this.#isCancelled || this.#failure !== undefined) control.cancel(this.#failure);
    else if (this.#isPaused) control.pause();
  }

  cancel(failure?: Error): void {
    if (failure === undefined) this.#isCancelled = true;
    else this.#failure = failure;
    this.#control?.cancel(failure);
  }

  pause(): void {
    this.#isPaused = true;
    this.#control?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#control?.resume();
  }
}

/**
 * Starts a call that has to wait before there is a stream to control. If `begin` rejects, `sink` ends with the error; `begin` must not have
 * ended it before.
 */
export function startCall<Message>(sink: Sink<Message>, begin: (call: StartingCall) => Promise<void>): StreamControl {
  const call = new StartingCall();
  begin(call).catch((thrown: unknown) => sink.end(toGatewayError(thrown)));
  return call;
}

/** A signal that never aborts, for work that continues if its caller disconnects. */
export const neverAborted = new AbortController().signal;
