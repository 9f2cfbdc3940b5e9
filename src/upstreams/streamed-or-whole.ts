import { type RunningAttempt, UpstreamFailure, type UpstreamReceiver } from '../generation/upstream.ts';

type Send = (whole: boolean, receiver: UpstreamReceiver) => RunningAttempt;

/** Returns whether a provider refused a request because of `stream`: organisations that OpenAI has not verified may not stream some models. Source: github.com/charmbracelet/crush/issues/1216, 2026-11-29. */
function isRefusedStream(failure: Error | undefined): boolean {
  return failure instanceof UpstreamFailure && failure.facts.status === 400 && failure.facts.param === 'stream';
}

/** An attempt that is streamed although the client did not ask for it. If the provider refuses it because of that, it is sent again and not streamed. */
export class StreamedOrWhole implements RunningAttempt {
  #attempt: RunningAttempt;
  #isCancelled = false;
  #isPaused = false;

  /** `refused` is called if the provider refuses the stream. */
  constructor(send: Send, refused: () => void, receiver: UpstreamReceiver) {
    this.#attempt = send(false, {
      events: events => receiver.events(events),
      end: failure => {
        if (!isRefusedStream(failure)) return receiver.end(failure);
        refused();
        if (this.#isCancelled) return;
        this.#attempt = send(true, receiver);
        if (this.#isPaused) this.#attempt.pause();
      },
    });
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#attempt.cancel();
  }

  pause(): void {
    this.#isPaused = true;
    this.#attempt.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#attempt.resume();
  }
}
