import type { UpstreamFailure } from '../generation/upstream.ts';

/** What one asker has learnt about a provider's keys. */
interface Experience {
  /** Keys that were refused outright, and "index model" of those that may not use a model. */
  readonly refused: Set<string>;
  /** Keys that are at their limit: the last resort. */
  readonly limited: Set<number>;
  lastRefusal: UpstreamFailure | undefined;
}

/**
 * A provider's keys in rotation, by their index. A key that was refused is not used again by the same asker (the hold of a request), whichever of the provider's routes it takes. Nothing
 * is kept of askers that no key has refused.
 */
export class KeyRing {
  readonly #count: number;
  readonly #experience = new WeakMap<object, Experience>();
  #next = 0;

  /** `count`: of keys; a provider that needs none has one that is empty. */
  constructor(count: number) {
    this.#count = count;
  }

  /** Returns the next key in turn that this asker may still use for `model`; undefined if there is none. */
  pick(asker: object, model: string): number | undefined {
    const { refused, limited } = this.#experience.get(asker) ?? {};
    let picked: number | undefined;
    for (let step = 0; step < this.#count; step += 1) {
      const index = (this.#next + step) % this.#count;
      if (refused?.has(`${index}`) === true || refused?.has(`${index} ${model}`) === true) continue;
      picked ??= index;
      if (limited?.has(index) === true) continue;
      picked = index;
      break;
    }
    if (picked !== undefined) this.#next = (picked + 1) % this.#count;
    return picked;
  }

  /** Returns why the last key was refused to this asker; undefined if none was. */
  lastRefusal(asker: object): UpstreamFailure | undefined {
    return this.#experience.get(asker)?.lastRefusal;
  }

  /** Takes in what a key was answered with. Returns whether it was refused: then another may do. 404 is how some upstreams say that a key may not use a model. */
  learn(asker: object, model: string, index: number, failure: UpstreamFailure): boolean {
    const { status = 0 } = failure.facts;
    if (![401, 403, 404, 429].includes(status)) return false;
    const experience = this.#experience.get(asker) ?? {
      refused: new Set(),
      limited: new Set(),
      lastRefusal: undefined,
    };
    this.#experience.set(asker, experience);
    if (status === 429) {
      experience.limited.add(index);
      return false;
    }
    experience.refused.add(status === 404 ? `${index} ${model}` : `${index}`);
    experience.lastRefusal = failure;
    return true;
  }
}
