import { GatewayError } from '../errors/gateway-error.ts';

/** A running request that can be ended from outside. */
export interface Interruptible {
  /** Ends the request now, because the gateway stops. */
  interrupt(): void;
  /** Ends the request because its key was revoked. What was delivered is charged. */
  revoke(): void;
  /** The API key that pays for it. */
  readonly keyId: number;
  /** Its index in `RunningRequests`; -1: not running. Only `RunningRequests` writes it. */
  place: number;
}

/** A service with running requests, which a stop of the gateway ends in steps. */
export interface StoppableService {
  /** Stops accepting requests. Resolves when the requests that have not begun yet have ended. */
  drain(): Promise<void> | void;
  /** Resolves when no request runs; immediately if none runs now. */
  idle(): Promise<unknown>;
  /** Ends all requests that still run. */
  interruptAll(): void;
  /** Ends the requests of a revoked key. */
  revoke(keyId: number): void;
}

/**
 * The requests that run in this process, so that a shutdown can wait for them and then end them. They are in an array (a removed entry is replaced by the last one), because with a Set or a Map V8's scavenges took seven times as long.
 */
export class RunningRequests<Run extends Interruptible = Interruptible> {
  readonly #running: Run[] = [];
  readonly #whenIdle: (() => void)[] = [];
  #beginning = 0;

  /** Returns all running requests, in no particular order. */
  get all(): readonly Run[] {
    return this.#running;
  }

  /** Counts a request that was accepted and is being checked and admitted, so that `idle` waits for it. Call `begun` once it was added or has failed. */
  beginning(): void {
    this.#beginning += 1;
  }

  /** Ends what `beginning` began. */
  begun(): void {
    this.#beginning -= 1;
    this.#checkIdle();
  }

  /** Adds a request that begins. */
  add(run: Run): void {
    run.place = this.#running.length;
    this.#running.push(run);
  }

  /** Removes a request that has ended; does nothing if it is not there. */
  delete(run: Run): void {
    const { place } = run;
    if (place < 0) return;
    run.place = -1;
    const last = this.#running.pop();
    if (last !== undefined && last !== run) {
      this.#running[place] = last;
      last.place = place;
    }
    this.#checkIdle();
  }

  #checkIdle(): void {
    if (this.#isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  get #isIdle(): boolean {
    return this.#running.length === 0 && this.#beginning === 0;
  }

  /** Resolves when no request begins or runs; immediately if none does now. */
  async idle(): Promise<void> {
    if (this.#isIdle) return;
    await new Promise<void>(resolve => {
      this.#whenIdle.push(resolve);
    });
  }

  /** Ends the requests of a revoked key. */
  revoke(keyId: number): void {
    for (let place = this.#running.length - 1; place >= 0; place -= 1) {
      const run = this.#running[place];
      if (run?.keyId === keyId) run.revoke();
    }
  }

  /** Ends all running requests. */
  interruptAll(): void {
    // Backwards, because a request may remove itself when it is interrupted.
    for (let place = this.#running.length - 1; place >= 0; place -= 1) this.#running[place]?.interrupt();
  }
}

/** Returns the error of a request whose key was revoked while it ran. */
export function keyRevoked(): GatewayError {
  return new GatewayError('invalid_api_key', 'The API key was revoked while its request ran.');
}

/** Returns the error of a request to a gateway that is stopping. */
export function stopping(): GatewayError {
  return new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: 5_000 });
}
