import type { Runtime } from '../lib/runtime.ts';

/** How long rests last, in ms: they double with each refusal in a row. */
interface RestLengths {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** The longest rest that a provider can request. */
const requestedMaxMs = 600_000;

/** The event that begins a rest. */
interface RestCause {
  readonly keyUser: object;
  /** False if an earlier attempt of the same request has already begun one: it counts once. */
  readonly isFirst: boolean;
  /** True if the key is at its rate limit. */
  readonly isLimit: boolean;
  /** How long the provider wants the key to rest; undefined: it does not say. */
  readonly requestedMs: number | undefined;
}

/** The rest of a key, or of a key for one model. After it, one key user tries the key; if that works, the rest has ended. */
export class KeyRest {
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  readonly #lengths: RestLengths;
  /** When it ends, by the monotonic clock; 0: there is none. */
  #untilMs = 0;
  /** The key user that is trying the key after the rest; undefined: none. */
  #probe: object | undefined;
  /** How many refusals there were since the key last worked. */
  #refusedInRow = 0;
  #isLimit = false;

  constructor(runtime: Pick<Runtime, 'monotonicMs'>, lengths: RestLengths) {
    this.#runtime = runtime;
    this.#lengths = lengths;
  }

  /** True if the key has not worked since the rest began. */
  get isSet(): boolean {
    return this.#untilMs > 0;
  }

  /** True if the rest began because of a rate limit. */
  get isLimit(): boolean {
    return this.#isLimit;
  }

  /** True if a key user is trying the key. */
  get isProbed(): boolean {
    return this.#probe !== undefined;
  }

  /** The time until the rest ends, in ms. */
  get leftMs(): number {
    return this.isSet ? Math.max(0, this.#untilMs - this.#runtime.monotonicMs()) : 0;
  }

  /** Returns whether a key user may use the key; undefined: one that has not used it yet. */
  isOver(keyUser: object | undefined): boolean {
    if (this.#untilMs === 0) return true;
    return (this.#probe === undefined || this.#probe === keyUser) && this.leftMs === 0;
  }

  /** Begins a rest. Refusals of calls that were already running when the key was refused do not extend it. */
  begin({ keyUser, isFirst, isLimit, requestedMs }: RestCause): void {
    if (this.isSet && this.#probe !== keyUser && this.leftMs > 0) return;
    if (isFirst || this.#refusedInRow === 0) this.#refusedInRow += 1;
    const { firstMs, maxMs } = this.#lengths;
    const growing = Math.min(firstMs * 2 ** Math.min(this.#refusedInRow - 1, 10), maxMs);
    // A provider that requests a wait of 0 does not mean that it takes the same request at once.
    const length = isLimit && requestedMs ? Math.min(requestedMs, requestedMaxMs) : growing;
    this.#untilMs = this.#runtime.monotonicMs() + length;
    this.#probe = undefined;
    this.#isLimit = isLimit;
  }

  /** Called when a key user picks the key. */
  probe(keyUser: object): void {
    if (this.isSet) this.#probe ??= keyUser;
  }

  /** Ends the rest if this key user was trying the key. Returns whether it did. */
  end(keyUser: object): boolean {
    if (!this.isSet || this.#probe !== keyUser) return false;
    this.#untilMs = 0;
    this.#probe = undefined;
    this.#refusedInRow = 0;
    return true;
  }

  /** Lets another key user try the key, if this one was trying it. */
  leave(keyUser: object): void {
    if (this.#probe === keyUser) this.#probe = undefined;
  }
}
