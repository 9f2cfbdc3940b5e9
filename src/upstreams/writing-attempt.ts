import type { RunningAttempt, UpstreamReceiver } from '../generation/upstream.ts';
import { asError } from './as-error.ts';

/** An attempt whose body is still being written or measured. It starts when that is done. */
export class WritingAttempt<Body> implements RunningAttempt {
  #attempt: RunningAttempt | undefined;
  #isCancelled = false;
  #isPaused = false;

  /** `start` sends the written body. */
  constructor(body: Promise<Body>, start: (body: Body) => RunningAttempt, receiver: UpstreamReceiver) {
    body
      .then(written => {
        if (this.#isCancelled) return;
        this.#attempt = start(written);
        if (this.#isPaused) this.#attempt.pause();
      })
      .catch((thrown: unknown) => {
        if (!this.#isCancelled) receiver.end(asError(thrown));
      });
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#attempt?.cancel();
  }

  pause(): void {
    this.#isPaused = true;
    this.#attempt?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#attempt?.resume();
  }
}
