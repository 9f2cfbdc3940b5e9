import type { KeyHealth, UpstreamFailure } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import type { Runtime } from '../lib/runtime.ts';

/** What one asker has learnt about a provider's keys. */
interface Experience {
  /** Keys that were refused outright, and "index model" of those that may not use a model. */
  readonly refused: Set<string>;
  /** Keys that are at their limit: the last resort. */
  readonly limited: Set<number>;
  lastRefusal: UpstreamFailure | undefined;
}

/** What all requests know of a key. */
interface KeyState {
  /** Until when it rests, on the clock that never steps; 0: it works. */
  restsUntilMs: number;
  /** Who tries it now, after its rest. */
  probe: object | undefined;
  /** Refusals since it last worked. */
  refusedInRow: number;
  refusals: number;
  last: { readonly status: number; readonly atMs: number; readonly message: string | undefined } | undefined;
}

/** How long a refused key rests at first, and at most. Source: decisions §3. */
const firstRestMs = 30_000;
const restMaxMs = 600_000;

/** What a ring needs of the world. */
export interface KeyRingTools {
  readonly runtime: Pick<Runtime, 'now' | 'monotonicMs'>;
  /** Told of every refusal, and of every key that works again; absent: nobody is. */
  readonly changed?: ((health: KeyHealth) => void) | undefined;
}

/**
 * A provider's keys in rotation, by their index. A key that was refused rests, for all requests: first 30 s or as long as the provider says, twice as long each time, at most ten minutes;
 * then one request tries it. The asker (the hold of a request) that met the refusal takes the next key at once and never the same again; only a key at its limit is its last resort. Nothing is kept of
 * askers that no key has refused.
 */
export class KeyRing {
  readonly #count: number;
  readonly #tools: KeyRingTools;
  readonly #keys: readonly KeyState[];
  readonly #experience = new WeakMap<object, Experience>();
  /** Keys that rest or are tried again. While there are none, a pick looks at nothing else. */
  #resting = 0;
  #next = 0;

  /** `count`: of keys; 0: the provider needs none, which is one that is empty and never rests. */
  constructor(count: number, tools: KeyRingTools) {
    this.#count = Math.max(count, 1);
    this.#tools = tools;
    this.#keys = Array.from({ length: count }, () => ({
      restsUntilMs: 0,
      probe: undefined,
      refusedInRow: 0,
      refusals: 0,
      last: undefined,
    }));
  }

  /** Whether some key may be used by a request that has not met a refusal. */
  get isUsable(): boolean {
    return this.#resting < this.#count || this.#keys.some(key => this.#isReady(key));
  }

  /** How long it takes until a key may be tried again, in ms; 0: one may be used now. */
  get restMs(): number {
    if (this.isUsable) return 0;
    const now = this.#tools.runtime.monotonicMs();
    return Math.max(1, Math.min(...this.#keys.map(({ restsUntilMs }) => restsUntilMs - now)));
  }

  /** How each key is, in the order of the configuration. */
  health(): KeyHealth[] {
    return this.#keys.map((_, index) => this.#healthOf(index));
  }

  /** Returns the next key in turn that this asker may use for `model`; undefined if there is none. Every pick is followed by `learn`, `works` or `leave`. */
  pick(asker: object, model: string): number | undefined {
    const { refused, limited } = this.#experience.get(asker) ?? {};
    let picked: number | undefined;
    for (let step = 0; step < this.#count; step += 1) {
      const index = (this.#next + step) % this.#count;
      if (refused?.has(`${index}`) === true || refused?.has(`${index} ${model}`) === true) continue;
      if (limited?.has(index) === true) {
        picked ??= index;
        continue;
      }
      const key = this.#keys[index];
      if (this.#resting > 0 && key !== undefined && !this.#isReady(key, asker)) continue;
      picked = index;
      break;
    }
    if (picked === undefined) return undefined;
    this.#next = (picked + 1) % this.#count;
    const key = this.#keys[picked];
    if (key !== undefined && key.restsUntilMs > 0) key.probe ??= asker;
    return picked;
  }

  /** Returns why the last key was refused to this asker; undefined if none was. */
  lastRefusal(asker: object): UpstreamFailure | undefined {
    return this.#experience.get(asker)?.lastRefusal;
  }

  /**
   * Takes in what a key was answered with. Returns whether another key may do, to be taken at once. 404 is how some upstreams say that a key may not use a model: of that no other request
   * learns anything.
   */
  learn(asker: object, model: string, index: number, failure: UpstreamFailure): boolean {
    const { status = 0, billing = false } = failure.facts;
    const isRefused = status === 401 || status === 403 || (billing && status !== 429);
    if (!isRefused && status !== 404 && status !== 429) {
      // An error of its own says nothing about the key; that the request is wrong is said by those who have let it in.
      if (status < 500) this.works(asker, index);
      else this.leave(asker, index);
      return false;
    }
    const experience = this.#experience.get(asker) ?? {
      refused: new Set(),
      limited: new Set(),
      lastRefusal: undefined,
    };
    this.#experience.set(asker, experience);
    if (status === 404) this.leave(asker, index);
    else this.#rest(asker, index, failure);
    if (status === 429) {
      experience.limited.add(index);
      return this.#hasOther(experience, asker, model);
    }
    experience.refused.add(status === 404 ? `${index} ${model}` : `${index}`);
    experience.lastRefusal = failure;
    return true;
  }

  /** The key was accepted. */
  works(asker: object, index: number): void {
    const key = this.#keys[index];
    if (key === undefined || key.restsUntilMs === 0 || key.probe !== asker) return;
    key.probe = undefined;
    key.restsUntilMs = 0;
    key.refusedInRow = 0;
    this.#resting -= 1;
    this.#tools.changed?.(this.#healthOf(index));
  }

  /** Nothing was learnt of the key: another request may try one that has rested. */
  leave(asker: object, index: number): void {
    const key = this.#keys[index];
    if (key?.probe === asker) key.probe = undefined;
  }

  #isReady({ restsUntilMs, probe }: KeyState, asker?: object): boolean {
    if (restsUntilMs === 0) return true;
    return (probe === undefined || probe === asker) && this.#tools.runtime.monotonicMs() >= restsUntilMs;
  }

  /** Whether the asker has a key left that is not at its limit. */
  #hasOther({ refused, limited }: Experience, asker: object, model: string): boolean {
    for (let index = 0; index < this.#count; index += 1) {
      if (limited.has(index) || refused.has(`${index}`) || refused.has(`${index} ${model}`)) continue;
      const key = this.#keys[index];
      if (key === undefined || this.#isReady(key, asker)) return true;
    }
    return false;
  }

  #rest(asker: object, index: number, { facts }: UpstreamFailure): void {
    const key = this.#keys[index];
    if (key === undefined) return;
    const { runtime, changed } = this.#tools;
    key.refusals += 1;
    key.last = { status: facts.status ?? 0, atMs: runtime.now(), message: facts.logMessage };
    // Requests that were under way when it was refused say nothing new.
    const isNews = key.restsUntilMs === 0 || key.probe === asker;
    if (isNews) {
      if (key.restsUntilMs === 0) this.#resting += 1;
      key.probe = undefined;
      key.restsUntilMs = runtime.monotonicMs() + restMs(key.refusedInRow, facts);
      key.refusedInRow += 1;
    }
    changed?.(this.#healthOf(index));
  }

  #healthOf(index: number): KeyHealth {
    const key = this.#keys[index];
    if (key === undefined) return { number: index + 1, state: 'working', refusals: 0 };
    const { restsUntilMs, probe, refusals, last } = key;
    const { runtime } = this.#tools;
    const restMs = Math.max(0, restsUntilMs - runtime.monotonicMs());
    const state = restsUntilMs === 0 ? 'working' : probe === undefined ? 'resting' : 'probing';
    const restsUntil = state === 'resting' ? runtime.now() + restMs : undefined;
    return { number: index + 1, state, refusals, ...defined({ restsUntilMs: restsUntil, last }) };
  }
}

/** How long a key rests after so many refusals in a row before this one. */
function restMs(before: number, { status, retryAfterMs }: UpstreamFailure['facts']): number {
  const growing = firstRestMs * 2 ** Math.min(before, 10);
  return Math.min(status === 429 && retryAfterMs !== undefined ? retryAfterMs : growing, restMaxMs);
}
