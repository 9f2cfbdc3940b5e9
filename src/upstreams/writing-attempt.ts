import type { RunningAttempt, UpstreamReceiver } from '../generation/upstream.ts';
import { asError } from './as-error.ts';

/** An attempt whose body is still being written. It starts when the body is complete. */
export class WritingAttempt implements RunningAttempt {
  #attempt: RunningAttempt | undefined;
  #isCancelled = false;
  #isPaused = false;

  /** `start` sends the written body. */
  constructor(body: Promise<Buffer>, start: (body: Buffer) => RunningAttempt, receiver: UpstreamReceiver) {
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
