import type { StreamControl } from '../../lib/push.ts';

/** The control of a call that is still being admitted: remembers what its caller asks for, and passes it on once there is something to control. */
export class StartingCall implements StreamControl {
  #control: StreamControl | undefined;
  #isCancelled = false;
  #isPaused = false;

  /** The caller has left. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** From now on `control` is what the caller controls. */
  attach(control: StreamControl): void {
    this.#control = control;
    if (this.#isCancelled) control.cancel();
    else if (this.#isPaused) control.pause();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#control?.cancel();
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
