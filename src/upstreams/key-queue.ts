import type { KeyWaiter } from '../generation/upstream.ts';
import { Rotation } from '../lib/rotation.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';
import { waitForTurn } from '../lib/turn.ts';

/** A request that waits for a key. */
interface Waiting {
  readonly keyUser: object;
  /** When it no longer waits, by the monotonic clock. */
  readonly untilMs: number;
  /** Called with whether there is a key. */
  readonly grant: (isReady: boolean) => void;
}

/** The requests that wait for a key for one model. */
interface Line {
  readonly waiting: Rotation<unknown, Waiting>;
  readonly timer: Timer;
}

/** How soon the next request is served if the one that was served last has not reported anything: it may have left. */
const nextMs = 250;

/**
 * The requests that wait until a provider's key may be used again for a model. Owners (accounts) are served in rotation; the requests of one owner, in order. After a rest one request is served; when the key works for it, two more, and so on, so that not all of them meet the same limit again.
 */
export class KeyQueue {
  readonly #runtime: Pick<Runtime, 'monotonicMs' | 'after'>;
  /** Returns the time until a key user may use a key for a model, in ms; Infinity: never. */
  readonly #restMs: (model: string, keyUser?: object) => number;
  readonly #lines = new Map<string, Line>();

  constructor(runtime: Pick<Runtime, 'monotonicMs' | 'after'>, restMs: (model: string, keyUser?: object) => number) {
    this.#runtime = runtime;
    this.#restMs = restMs;
  }

  /** Returns whether requests wait for a model. */
  isWaitedFor(model: string): boolean {
    return this.#lines.has(model);
  }

  /** Waits for a key. Returns false, at once if possible, if the wait would be too long. Rejects with the signal's reason if it is aborted. */
  async wait(model: string, { keyUser, owner, waitMs, signal }: KeyWaiter): Promise<boolean> {
    signal.throwIfAborted();
    const restMs = this.#restMs(model, keyUser);
    if (restMs === 0 && !this.isWaitedFor(model)) return true;
    if (restMs > waitMs) return false;
    const untilMs = this.#runtime.monotonicMs() + waitMs;
    const isReady = await waitForTurn<boolean>({ runtime: this.#runtime, waitMs, signal }, grant => {
      const line = this.#lines.get(model) ?? this.#open(model);
      const waiting = { keyUser, untilMs, grant };
      line.waiting.add(owner, waiting);
      return () => this.#remove(model, owner, waiting);
    });
    return isReady === true;
  }

  /** Serves up to `most` requests that wait for a model, if a key is ready, and lets those go for which it will take too long. */
  serve(model: string, most: number): void {
    const line = this.#lines.get(model);
    if (line === undefined) return;
    const now = this.#runtime.monotonicMs();
    for (let served = 0; served < most; served += 1) {
      const next = line.waiting.takeReady((_, { keyUser }) => this.#restMs(model, keyUser) === 0);
      if (next === undefined) break;
      next.grant(true);
    }
    const late = line.waiting.takeReady((_, { keyUser, untilMs }) => now + this.#restMs(model, keyUser) > untilMs);
    late?.grant(false);
    if (late !== undefined) return this.serve(model, 0);
    if (line.waiting.size === 0) {
      line.timer.cancel();
      this.#lines.delete(model);
    } else line.timer.restart(this.#pauseMs(model));
  }

  /** Returns when requests are served next: when the rest ends, but soon, because a key may be ready without notice. */
  #pauseMs(model: string): number {
    const restMs = this.#restMs(model);
    return restMs === 0 ? nextMs : Math.min(restMs, nextMs);
  }

  #open(model: string): Line {
    const line = {
      waiting: new Rotation<unknown, Waiting>(),
      timer: this.#runtime.after(this.#pauseMs(model), () => this.serve(model, 1)),
    };
    this.#lines.set(model, line);
    return line;
  }

  /** Returns false if the request was served already. */
  #remove(model: string, owner: unknown, waiting: Waiting): boolean {
    const line = this.#lines.get(model);
    if (line?.waiting.remove(owner, waiting) !== true) return false;
    if (line.waiting.size === 0) {
      line.timer.cancel();
      this.#lines.delete(model);
    }
    return true;
  }
}
