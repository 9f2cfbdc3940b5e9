import { UpstreamFailure } from '../generation/upstream.ts';

/** How long an upstream may take, in ms. Source: decisions §1. */
export interface UpstreamTimeouts {
  /** To take a connection. */
  readonly connectMs: number;
  /** From the sent request to the first event of the answer. */
  readonly firstEventMs: number;
  /** Between any bytes of the answer after that; comments count, they are what a busy upstream sends. */
  readonly idleMs: number;
  /** For all of it. */
  readonly totalMs: number;
}

/** How long usage and the end may take after the last choice has ended (wire.md C5). */
const graceMs = 2_000;
/** How long the body of an error may take. */
const errorBodyMs = 5_000;

/** What ends an answer that is whole but for its formal end: not a failure. */
export class GraceOver extends Error {
  override readonly name = 'GraceOver';
}

/** The time limits of one try. One timer per phase and one for all; `stop` ends them. */
export class AnswerDeadlines {
  readonly #timeouts: UpstreamTimeouts;
  readonly #total: NodeJS.Timeout;
  #phase: NodeJS.Timeout | undefined;
  readonly #expired: (reason: Error) => void;
  #idling = false;
  #waiting = false;
  #unread = false;

  /** `expired` is told the failure, or `GraceOver`; `overtime` too, where the time for all is over and nobody waits for bytes. */
  constructor(
    timeouts: UpstreamTimeouts,
    expired: (reason: Error) => void,
    overtime?: (failure: UpstreamFailure) => void,
  ) {
    this.#timeouts = timeouts;
    this.#expired = expired;
    this.#total = setTimeout(() => {
      const failure = new UpstreamFailure('total_timeout');
      expired(failure);
      if (this.#unread) overtime?.(failure);
    }, timeouts.totalMs);
  }

  /** A connection is being looked for. */
  connecting(): void {
    this.#arm(this.#timeouts.connectMs, () => new UpstreamFailure('connect', { cause: new Error('connect time-out') }));
  }

  /** The request goes out. */
  sent(): void {
    this.#arm(this.#timeouts.firstEventMs, () => new UpstreamFailure('first_event_timeout'));
  }

  /** The first event has come. */
  answering(): void {
    this.#arm(this.#timeouts.idleMs, () => (this.#waiting ? new UpstreamFailure('idle_timeout') : undefined));
    this.#idling = true;
  }

  /** Every choice has ended: only usage and the formal end are missing. */
  finishing(): void {
    this.#arm(graceMs, () => new GraceOver('the formal end did not come'));
  }

  /** An error status has come. */
  errorBody(): void {
    this.#arm(errorBodyMs, () => new GraceOver('the error’s body did not end'));
  }

  /** Somebody waits for bytes from now on. A reader that takes its time is not the upstream's fault. */
  waiting(): void {
    this.#waiting = true;
    this.#unread = false;
    if (this.#idling) this.#phase?.refresh();
  }

  /** They have come. */
  arrived(): void {
    this.#waiting = false;
    this.#unread = true;
  }

  stop(): void {
    clearTimeout(this.#phase);
    clearTimeout(this.#total);
  }

  #arm(ms: number, reason: () => Error | undefined): void {
    clearTimeout(this.#phase);
    this.#idling = false;
    this.#phase = setTimeout(() => {
      const failure = reason();
      if (failure !== undefined) this.#expired(failure);
    }, ms);
  }
}
