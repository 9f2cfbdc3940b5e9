import type { KeyHealth, UpstreamFailure } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import type { Runtime } from '../lib/runtime.ts';

/** The refusals that one key user has got. */
interface Experience {
  /** The refused keys: "INDEX", or "INDEX MODEL" for a key that can't use that model. */
  readonly refused: Set<string>;
  /** The keys that are at their rate limit, by index. They are used only if no other key is left. */
  readonly limited: Set<number>;
  lastRefusal: UpstreamFailure | undefined;
}

/** The state of a key, shared by all requests. */
interface KeyState {
  /** When the key's rest ends, by the monotonic clock; 0: it does not rest. */
  restsUntilMs: number;
  /** The key user that is trying the key after its rest; undefined: none. */
  probe: object | undefined;
  /** How many refusals there were since the key last worked. */
  refusedInRow: number;
  refusals: number;
  last: { readonly status: number; readonly atMs: number; readonly message: string | undefined } | undefined;
}

/** The first and the longest rest of a refused key. Source: docs/providers.md "Keys that rest". */
const firstRestMs = 30_000;
const restMaxMs = 600_000;

/** Dependencies of a `KeyRing`. */
export interface KeyRingDependencies {
  readonly runtime: Pick<Runtime, 'now' | 'monotonicMs'>;
  /** Called when a key is refused, and when it works again. */
  readonly changed?: ((health: KeyHealth) => void) | undefined;
}

/**
 * Rotates through a provider's keys, by index. A key user is an object that identifies one user of the keys, usually the hold of a request. A refused key rests, which means that no key user gets it: for 30 s at first, then for twice as long each time, or as long as a 429 requests, but at most for ten minutes. After that, one key user tries the key. The key user that was refused gets the next key immediately, and never the refused one again, except a key at its rate limit if
 * no other is left. Nothing is stored for a key user that has got no refusal.
 */
export class KeyRing {
  readonly #count: number;
  readonly #dependencies: KeyRingDependencies;
  readonly #keys: readonly KeyState[];
  readonly #experience = new WeakMap<object, Experience>();
  /** How many keys rest or are being tried again. If 0, `pick` need not check each key. */
  #resting = 0;
  #next = 0;

  /** `count`: the number of keys. 0: the provider needs no key; the ring then acts as if it had one key that never rests. */
  constructor(count: number, dependencies: KeyRingDependencies) {
    this.#count = Math.max(count, 1);
    this.#dependencies = dependencies;
    this.#keys = Array.from({ length: count }, () => ({
      restsUntilMs: 0,
      probe: undefined,
      refusedInRow: 0,
      refusals: 0,
      last: undefined,
    }));
  }

  /** True if a request that has got no refusal can use a key. */
  get isUsable(): boolean {
    return this.#resting < this.#count || this.#keys.some(key => this.#isReady(key));
  }

  /** The time until a key can be used, in ms; 0: one can be used now. */
  get restMs(): number {
    if (this.isUsable) return 0;
    const now = this.#dependencies.runtime.monotonicMs();
    return Math.max(1, Math.min(...this.#keys.map(({ restsUntilMs }) => restsUntilMs - now)));
  }

  /** Returns the state of each key, in the configured order. */
  health(): KeyHealth[] {
    return this.#keys.map((_, index) => this.#readHealth(index));
  }

  /**
   * Returns the index of the next key that this key user may use for `model`; undefined if there is none. Every `pick` must be followed by `learn`, `works` or `leave`.
   */
  pick(keyUser: object, model: string): number | undefined {
    const { refused, limited } = this.#experience.get(keyUser) ?? {};
    let picked: number | undefined;
    for (let step = 0; step < this.#count; step += 1) {
      const index = (this.#next + step) % this.#count;
      if (refused?.has(`${index}`) === true || refused?.has(`${index} ${model}`) === true) continue;
      if (limited?.has(index) === true) {
        picked ??= index;
        continue;
      }
      const key = this.#keys[index];
      if (this.#resting > 0 && key !== undefined && !this.#isReady(key, keyUser)) continue;
      picked = index;
      break;
    }
    if (picked === undefined) return undefined;
    this.#next = (picked + 1) % this.#count;
    const key = this.#keys[picked];
    if (key !== undefined && key.restsUntilMs > 0) key.probe ??= keyUser;
    return picked;
  }

  /** Returns the last refusal that this key user has got; undefined if none. */
  lastRefusal(keyUser: object): UpstreamFailure | undefined {
    return this.#experience.get(keyUser)?.lastRefusal;
  }

  /**
   * Records that a call with this key failed. Returns whether the key user should try another key immediately. Some upstreams return 404 if a key can't use a model, so a 404 counts only for this key user and model.
   */
  learn(keyUser: object, model: string, index: number, failure: UpstreamFailure): boolean {
    const { status = 0, meaning } = failure.facts;
    const isRefused = status === 401 || status === 403 || meaning === 'key' || meaning === 'billing';
    if (!isRefused && status !== 404 && status !== 429) {
      // An error of the upstream itself says nothing about the key; a rejected request shows that the key was accepted.
      if (status < 500) this.works(keyUser, index);
      else this.leave(keyUser, index);
      return false;
    }
    const experience = this.#experience.get(keyUser) ?? {
      refused: new Set(),
      limited: new Set(),
      lastRefusal: undefined,
    };
    this.#experience.set(keyUser, experience);
    if (status === 404) this.leave(keyUser, index);
    else this.#rest(keyUser, index, failure);
    if (status === 429) {
      experience.limited.add(index);
      return this.#hasOther(experience, keyUser, model);
    }
    experience.refused.add(status === 404 ? `${index} ${model}` : `${index}`);
    experience.lastRefusal = failure;
    return true;
  }

  /** Records that the upstream accepted the key. */
  works(keyUser: object, index: number): void {
    const key = this.#keys[index];
    if (key === undefined || key.restsUntilMs === 0 || key.probe !== keyUser) return;
    key.probe = undefined;
    key.restsUntilMs = 0;
    key.refusedInRow = 0;
    this.#resting -= 1;
    this.#dependencies.changed?.(this.#readHealth(index));
  }

  /** Records that a call has ended without saying anything about the key. If this key user was trying the key after its rest, another one can try it now. */
  leave(keyUser: object, index: number): void {
    const key = this.#keys[index];
    if (key?.probe === keyUser) key.probe = undefined;
  }

  #isReady({ restsUntilMs, probe }: KeyState, keyUser?: object): boolean {
    if (restsUntilMs === 0) return true;
    return (probe === undefined || probe === keyUser) && this.#dependencies.runtime.monotonicMs() >= restsUntilMs;
  }

  /** Returns whether there is another key that this key user can use and that is not at its rate limit. */
  #hasOther({ refused, limited }: Experience, keyUser: object, model: string): boolean {
    for (let index = 0; index < this.#count; index += 1) {
      if (limited.has(index) || refused.has(`${index}`) || refused.has(`${index} ${model}`)) continue;
      const key = this.#keys[index];
      if (key === undefined || this.#isReady(key, keyUser)) return true;
    }
    return false;
  }

  #rest(keyUser: object, index: number, { facts }: UpstreamFailure): void {
    const key = this.#keys[index];
    if (key === undefined) return;
    const { runtime, changed } = this.#dependencies;
    key.refusals += 1;
    key.last = { status: facts.status ?? 0, atMs: runtime.now(), message: facts.logMessage };
    // Refusals of calls that were already running when the key was refused do not extend its rest.
    const startsRest = key.restsUntilMs === 0 || key.probe === keyUser;
    if (startsRest) {
      if (key.restsUntilMs === 0) this.#resting += 1;
      key.probe = undefined;
      key.restsUntilMs = runtime.monotonicMs() + restMs(key.refusedInRow, facts);
      key.refusedInRow += 1;
    }
    changed?.(this.#readHealth(index));
  }

  #readHealth(index: number): KeyHealth {
    const key = this.#keys[index];
    if (key === undefined) return { number: index + 1, state: 'working', refusals: 0 };
    const { restsUntilMs, probe, refusals, last } = key;
    const { runtime } = this.#dependencies;
    const restMs = Math.max(0, restsUntilMs - runtime.monotonicMs());
    const state = restsUntilMs === 0 ? 'working' : probe === undefined ? 'resting' : 'probing';
    const restsUntil = state === 'resting' ? runtime.now() + restMs : undefined;
    return { number: index + 1, state, refusals, ...defined({ restsUntilMs: restsUntil, last }) };
  }
}

/** Returns how long a refused key rests, in ms. `before`: how many refusals in a row came before this one. */
function restMs(before: number, { status, retryAfterMs }: UpstreamFailure['facts']): number {
  const growing = firstRestMs * 2 ** Math.min(before, 10);
  return Math.min(status === 429 && retryAfterMs !== undefined ? retryAfterMs : growing, restMaxMs);
}
