import type { UpstreamFailure } from '../generation/upstream.ts';
import type { Hold } from '../generation/hold.ts';

/** A credential that shows itself only when asked by name. */
export interface RevealableKey {
  reveal(): string;
}

/** A key that is to be used; `key` is absent where the provider needs none. */
export interface PickedKey {
  readonly index: number;
  readonly key: RevealableKey | undefined;
}

/** What a key was answered with. */
export interface KeyAnswer {
  readonly index: number;
  readonly failure: UpstreamFailure;
}

/** What one request has learnt about a provider's keys. */
interface Experience {
  /** Keys that were refused outright, and "index model" of those that may not use a model. */
  readonly refused: Set<string>;
  /** Keys that are at their limit: the last resort. */
  readonly limited: Set<number>;
  lastRefusal: UpstreamFailure | undefined;
}

/**
 * A provider's keys in rotation. A key that was refused is not used again by the same request, whichever of the provider's
 * routes it takes (decisions §3).
 */
export class KeyRing {
  readonly #keys: readonly PickedKey[];
  /** A request is known by its hold, and forgotten with it. */
  readonly #experience = new WeakMap<Hold, Experience>();
  #next = 0;

  constructor(keys: readonly RevealableKey[]) {
    this.#keys = (keys.length === 0 ? [undefined] : keys).map((key, index) => ({ index, key }));
  }

  /** The next key in turn that this request may still use for `model`; undefined where there is none. */
  pick(hold: Hold, model: string): PickedKey | undefined {
    const { refused, limited } = this.#experience.get(hold) ?? {};
    let last: number | undefined;
    for (let step = 0; step < this.#keys.length; step += 1) {
      const index = (this.#next + step) % this.#keys.length;
      if (refused?.has(`${index}`) === true || refused?.has(`${index} ${model}`) === true) continue;
      if (limited?.has(index) !== true) return this.#take(index);
      last ??= index;
    }
    return last === undefined ? undefined : this.#take(last);
  }

  /** Why the last key was refused in this request; undefined where none was. */
  lastRefusal(hold: Hold): UpstreamFailure | undefined {
    return this.#experience.get(hold)?.lastRefusal;
  }

  /**
   * Takes in what a key was answered with. Whether it was refused: then another may do. 404 is how some upstreams say that a key
   * may not use a model.
   */
  learn(hold: Hold, model: string, { index, failure }: KeyAnswer): boolean {
    const { status } = failure.facts;
    if (status === 429) {
      this.#of(hold).limited.add(index);
      return false;
    }
    if (status !== 401 && status !== 403 && status !== 404) return false;
    const experience = this.#of(hold);
    experience.refused.add(status === 404 ? `${index} ${model}` : `${index}`);
    experience.lastRefusal = failure;
    return true;
  }

  #take(index: number): PickedKey | undefined {
    this.#next = (index + 1) % this.#keys.length;
    return this.#keys[index];
  }

  #of(hold: Hold): Experience {
    let experience = this.#experience.get(hold);
    if (experience === undefined) {
      experience = { refused: new Set(), limited: new Set(), lastRefusal: undefined };
      this.#experience.set(hold, experience);
    }
    return experience;
  }
}
