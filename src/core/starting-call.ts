import { Code, ConnectError } from '@connectrpc/connect';
import { toGatewayError } from '../errors/gateway-error.ts';
import type { Sink, StreamControl } from '../lib/push.ts';

/**
 * Controls a call that is still being admitted. It remembers whether the client paused or cancelled the call, and applies that when the call's control exists.
 */
export class StartingCall implements StreamControl {
  #control: StreamControl | undefined;
  #isCancelled = false;
  #failure: Error | undefined;
  #isPaused = false;
  #leaving: AbortController | undefined;

  /** Aborted once the call is cancelled, because nobody waits for it. Made when it is first used, because almost no call waits for anything. */
  get signal(): AbortSignal {
    this.#leaving ??= new AbortController();
    if (this.#isCancelled || this.#failure !== undefined) this.#abort();
    return this.#leaving.signal;
  }

  /** True if the call was cancelled without a failure, because the client has disconnected. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Passes all actions of the client to `control`, beginning with the earlier ones. */
  attach(control: StreamControl): void {
    this.#control = control;
    if (this.#isCancelled || this.#failure !== undefined) control.cancel(this.#failure);
    else if (this.#isPaused) control.pause();
  }

  cancel(failure?: Error): void {
    if (failure === undefined) this.#isCancelled = true;
    else this.#failure = failure;
    this.#abort();
    this.#control?.cancel(failure);
  }

  #abort(): void {
    this.#leaving?.abort(this.#failure ?? new ConnectError('The call was cancelled.', Code.Canceled));
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
 * Starts a call that has to wait before there is a stream to control. If `begin` rejects, `sink` is ended with the error; `begin` must not have ended it already.
 */
export function startCall<Message>(sink: Sink<Message>, begin: (call: StartingCall) => Promise<void>): StreamControl {
  const call = new StartingCall();
  begin(call).catch((thrown: unknown) => sink.end(thrown instanceof ConnectError ? thrown : toGatewayError(thrown)));
  return call;
}

/** A signal that never aborts, for work that continues if its caller disconnects. */
export const neverAborted = new AbortController().signal;
