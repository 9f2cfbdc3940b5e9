import { hash } from 'node:crypto';
import { readMeaning } from '../generation/failure-meaning.ts';
import type { KeyChange, KeyHealth, KeysHealth, KeyWaiter, UpstreamFailure } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import type { Runtime } from '../lib/runtime.ts';
import { KeyQueue } from './key-queue.ts';
import { KeyRest } from './key-rest.ts';

/** The refusals that one key user has got. */
interface Experience {
  /** The refused keys: "INDEX", or "INDEX MODEL" for a key that can't use that model. */
  readonly refused: Set<string>;
  /** The rests that this key user has begun: its further refusals do not count. */
  readonly rests: Set<KeyRest>;
  lastRefusal: UpstreamFailure | undefined;
}

/** The state of a key, shared by all requests. */
interface KeyState {
  /** The rest of a key that is wrong, or whose bill is not paid. */
  readonly whole: KeyRest;
  /** The rests by model: of a rate limit, or a refusal to use the model. */
  readonly models: Map<string, KeyRest>;
  /** True if it was refused, and has not worked since. */
  isRefused: boolean;
  refusals: number;
  last: { readonly status: number; readonly atMs: number; readonly message: string | undefined } | undefined;
}

/** The first and the longest rest of a key that is wrong or not paid for. Source: docs/providers.md "Keys that rest". */
const wholeRest = { firstMs: 30_000, maxMs: 600_000 };
/** The same for a key and a model, unless the provider says how long. */
const modelRest = { firstMs: 1_000, maxMs: 30_000 };

/** Dependencies of a `KeyRing`. */
export interface KeyRingDependencies {
  readonly runtime: Pick<Runtime, 'now' | 'monotonicMs' | 'after'>;
  /** Called when a key is refused, and when it works again. */
  readonly changed?: ((health: KeyHealth, change: KeyChange) => void) | undefined;
}

/**
 * Rotates through a provider's keys, by index. A key user is an object that identifies one user of the keys, usually the hold of a request; all of its attempts count as one. A wrong key rests for all models; a key at its rate limit, or that may not use a model, rests for that model. A key that rests is given to no key user; after its rest, one key user tries it. The last key never rests because it is refused, and a request that was refused by all others tries one that rests for that reason; for the last key that rests because of a rate limit, key users
 * wait (`whenReady`). A key user that was refused gets the next key immediately, and never the refused one again. Nothing is stored for a key user that has got no refusal.
 */
export class KeyRing implements KeysHealth {
  readonly #count: number;
  readonly #dependencies: KeyRingDependencies;
  readonly #keys: readonly KeyState[];
  readonly #experience = new WeakMap<object, Experience>();
  readonly #queue: KeyQueue;
  /** How many rests there are. If 0, `pick` need not check each key. */
  #resting = 0;
  #next = 0;

  /** `count`: the number of keys. 0: the provider needs no key; the ring then acts as if it had one key that never rests. */
  constructor(count: number, dependencies: KeyRingDependencies) {
    this.#count = Math.max(count, 1);
    this.#dependencies = dependencies;
    const { runtime } = dependencies;
    this.#keys = Array.from({ length: count }, () => ({
      whole: new KeyRest(runtime, wholeRest),
      models: new Map(),
      isRefused: false,
      refusals: 0,
      last: undefined,
    }));
    this.#queue = new KeyQueue(runtime, (model, keyUser) => this.#restMs(model, keyUser));
  }

  restMs(model: string): number {
    if (this.#resting === 0 && !this.#queue.isWaitedFor(model)) return 0;
    return Math.max(this.#restMs(model), this.#queue.isWaitedFor(model) ? 1 : 0);
  }

  async whenReady(model: string, waiter: KeyWaiter): Promise<boolean> {
    return this.#queue.wait(model, waiter);
  }

  health(): KeyHealth[] {
    return this.#keys.map((_, index) => this.#readHealth(index));
  }

  /**
   * Returns the index of the next key that this key user may use for `model`; undefined if there is none. `affinity`: requests with the same text get the same key as long as it is ready (rendezvous hashing), others keep theirs; absent: the keys are used in rotation. Every `pick` must be followed by `learn`, `works` or `release`.
   */
  pick(keyUser: object, model: string, affinity?: string): number | undefined {
    const index = this.#choose(model, keyUser, affinity);
    if (index === undefined) return undefined;
    this.#next = (index + 1) % this.#count;
    return index;
  }

  reserve(model: string, keyUser: object): boolean {
    return this.#choose(model, keyUser) !== undefined || this.#restMs(model, keyUser) === Infinity;
  }

  release(model: string, keyUser: object): void {
    if (this.#resting === 0) return;
    for (const key of this.#keys) for (const rest of listRests(key, model)) rest.leave(keyUser);
    this.#queue.serve(model, 1);
  }

  /** Returns the key that a key user uses next, which no other key user can try meanwhile; undefined if there is none. */
  #choose(model: string, keyUser: object, affinity?: string): number | undefined {
    const order = this.#order(affinity);
    const { refused } = this.#experience.get(keyUser) ?? {};
    const index =
      order.find(index => !isRefused(refused, index, model) && this.#isReady(index, model, keyUser)) ??
      // Rather than fail because of another's request, a request that was refused tries a key that rests because it was refused.
      (refused === undefined ? undefined : order.find(index => this.#isOpen(index, model, keyUser)));
    if (index !== undefined) for (const rest of listRests(this.#keys[index], model)) rest.probe(keyUser);
    return index;
  }

  /** Returns the last refusal that this key user has got; undefined if none. */
  lastRefusal(keyUser: object): UpstreamFailure | undefined {
    return this.#experience.get(keyUser)?.lastRefusal;
  }

  /** Records that a call with this key failed. Returns whether the key user should try another key immediately. */
  learn(keyUser: object, model: string, index: number, failure: UpstreamFailure): boolean {
    const { status = 0, meaning: said } = failure.facts;
    const meaning = readMeaning(status, said);
    switch (meaning) {
      case 'key':
      case 'billing':
        this.#refuse(keyUser, `${index}`, failure);
        this.#rest({ keyUser, model, index, isLimit: false, isWhole: true }, failure);
        return true;
      case 'permission':
        this.#refuse(keyUser, `${index} ${model}`, failure);
        this.#rest({ keyUser, model, index, isLimit: false, isWhole: false }, failure);
        return true;
      case 'limit':
      case 'quota':
        this.#rest({ keyUser, model, index, isLimit: true, isWhole: false }, failure);
        return this.#keys.length > 0 && this.#restMs(model, keyUser) === 0;
      case 'model':
        // Some upstreams answer so if a key can't use a model. It counts only for this key user, because another may not have the same request.
        this.#refuse(keyUser, `${index} ${model}`, failure);
        this.release(model, keyUser);
        return true;
      default:
        // An error of the upstream itself says nothing about the key; a rejected request shows that the key was accepted.
        if (status < 500) this.works(keyUser, model, index);
        else this.release(model, keyUser);
        return false;
    }
  }

  /** Records that the upstream accepted the key. */
  works(keyUser: object, model: string, index: number): void {
    const key = this.#keys[index];
    let hasEnded = key?.isRefused === true;
    if (!hasEnded && this.#resting === 0 && !this.#queue.isWaitedFor(model)) return;
    if (key !== undefined) key.isRefused = false;
    for (const rest of listRests(key, model)) {
      if (!rest.end(keyUser)) continue;
      this.#resting -= 1;
      hasEnded = true;
    }
    this.release(model, keyUser);
    if (hasEnded) this.#dependencies.changed?.(this.#readHealth(index), 'works');
    this.#queue.serve(model, 2);
  }

  /** Returns the keys in the order in which they are tried. */
  #order(affinity: string | undefined): number[] {
    const indexes = Array.from({ length: this.#count }, (_, step) => (this.#next + step) % this.#count);
    if (affinity === undefined || this.#count === 1) return indexes;
    const scores = indexes.map(index => ({ index, score: hash('sha256', `${index} ${affinity}`, 'hex') }));
    return scores.toSorted((one, other) => (one.score < other.score ? -1 : 1)).map(({ index }) => index);
  }

  #isReady(index: number, model: string, keyUser?: object): boolean {
    return this.#resting === 0 || listRests(this.#keys[index], model).every(rest => rest.isOver(keyUser));
  }

  /** Returns whether a key user may use a key, at least if no other is left. */
  #isOpen(index: number, model: string, keyUser?: object): boolean {
    const experience = keyUser === undefined ? undefined : this.#experience.get(keyUser);
    if (isRefused(experience?.refused, index, model)) return false;
    const wasRefused = experience?.lastRefusal !== undefined;
    const rests = listRests(this.#keys[index], model);
    return rests.every(rest => rest.isOver(keyUser) || (wasRefused && !rest.isLimit));
  }

  /** Returns the time until a key may be used for a model, by this key user, in ms; 0: one may be used now; Infinity: all were refused to it. */
  #restMs(model: string, keyUser?: object): number {
    if (this.#keys.length === 0) return 0;
    const refused = keyUser === undefined ? undefined : this.#experience.get(keyUser)?.refused;
    let shortest = Infinity;
    for (const [index, key] of this.#keys.entries()) {
      if (isRefused(refused, index, model)) continue;
      if (this.#isOpen(index, model, keyUser)) return 0;
      const rests = listRests(key, model).map(rest => rest.leftMs);
      shortest = Math.min(shortest, Math.max(1, ...rests));
    }
    return shortest;
  }

  #refuse(keyUser: object, refused: string, failure: UpstreamFailure): void {
    const experience = this.#findExperience(keyUser);
    experience.refused.add(refused);
    experience.lastRefusal = failure;
  }

  #findExperience(keyUser: object): Experience {
    const experience = this.#experience.get(keyUser) ?? {
      refused: new Set(),
      rests: new Set(),
      lastRefusal: undefined,
    };
    this.#experience.set(keyUser, experience);
    return experience;
  }

  #rest({ keyUser, model, index, isLimit, isWhole }: Refusal, { facts }: UpstreamFailure): void {
    const key = this.#keys[index];
    if (key === undefined) return;
    const { runtime, changed } = this.#dependencies;
    const rest = isWhole ? key.whole : (key.models.get(model) ?? new KeyRest(runtime, modelRest));
    if (!isWhole) key.models.set(model, rest);
    const { rests } = this.#findExperience(keyUser);
    const isFirst = !rests.has(rest);
    rests.add(rest);
    if (isFirst) key.refusals += 1;
    if (!isLimit) key.isRefused = true;
    key.last = { status: facts.status ?? 0, atMs: runtime.now(), message: facts.logMessage };
    const wasResting = rest.isSet;
    if (isLimit || this.#hasOther(index, model))
      rest.begin({ keyUser, isFirst, isLimit, requestedMs: facts.retryAfterMs });
    else rest.leave(keyUser);
    if (rest.isSet && !wasResting) this.#resting += 1;
    changed?.(this.#readHealth(index), 'refused');
    this.#queue.serve(model, 1);
  }

  /** Returns whether another key was not refused, so that a refused one need not be used. */
  #hasOther(index: number, model: string): boolean {
    return this.#keys.some(
      (key, other) => other !== index && listRests(key, model).every(rest => !rest.isSet || rest.isLimit),
    );
  }

  #readHealth(index: number): KeyHealth {
    const key = this.#keys[index];
    if (key === undefined) return { number: index + 1, state: 'working', isRefused: false, refusals: 0 };
    const { whole, models, isRefused, refusals, last } = key;
    const rests = [whole, ...models.values()].filter(rest => rest.isSet);
    const rest = whole.isSet ? whole : rests.toSorted((one, other) => other.leftMs - one.leftMs)[0];
    const state = rest === undefined ? 'working' : rest.isProbed ? 'probing' : 'resting';
    const restsUntilMs =
      state === 'resting' && rest !== undefined ? this.#dependencies.runtime.now() + rest.leftMs : undefined;
    return { number: index + 1, state, isRefused, refusals, ...defined({ restsUntilMs, last }) };
  }
}

interface Refusal {
  readonly keyUser: object;
  readonly model: string;
  readonly index: number;
  /** True if the key is at its rate limit; false: it was refused. */
  readonly isLimit: boolean;
  /** True if it is refused for all models. */
  readonly isWhole: boolean;
}

const isRefused = (refused: ReadonlySet<string> | undefined, index: number, model: string): boolean =>
  refused !== undefined && (refused.has(`${index}`) || refused.has(`${index} ${model}`));

function listRests(key: KeyState | undefined, model: string): KeyRest[] {
  if (key === undefined) return [];
  const rest = key.models.get(model);
  return rest === undefined ? [key.whole] : [key.whole, rest];
}
