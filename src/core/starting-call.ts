import { toGatewayError } from '../errors/gateway-error.ts';
import type { Sink, StreamControl } from '../lib/push.ts';

/** The control of a call that is still being admitted: remembers what its caller asks for, and passes it on once there is something to control. */
export class StartingCall implements StreamControl {
  #control: StreamControl | undefined;
  #isCancelled = false;
  #failure: Error | undefined;
  #isPaused = false;

  /** The caller has left. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** From now on `control` is what the caller controls. */
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

/** Starts a call that waits for something before there is a stream to control. What `begin` rejects with ends `sink`, which must not have ended then. */
export function startCall<Message>(sink: Sink<Message>, begin: (call: StartingCall) => Promise<void>): StreamControl {
  const call = new StartingCall();
  begin(call).catch((thrown: unknown) => sink.end(toGatewayError(thrown)));
  return call;
}

/** The signal of work that goes on whoever leaves. */
export const nobodyLeaves = new AbortController().signal;
