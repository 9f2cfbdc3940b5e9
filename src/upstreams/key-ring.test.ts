import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { Hold } from '../generation/hold.ts';
import type { FailureMeaning } from '../generation/failure-meaning.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';
import { KeyRing } from './key-ring.ts';

/** Makes the hold of a new request. The ring knows requests only by their holds. */
const hold = (): Hold => Hold.of({ kind: 'admitted', id: 1 });
const names = ['a', 'b', 'c'];

/** Time that moves only when a test moves it. */
class TestTime implements Pick<Runtime, 'now' | 'monotonicMs' | 'after'> {
  #ms = 1_000;
  readonly #due = new Map<object, { atMs: number; run: () => void }>();

  now = (): number => 1_800_000_000_000 + this.#ms;
  monotonicMs = (): number => this.#ms;

  after = (ms: number, run: () => void): Timer => {
    const timer: Timer = {
      cancel: () => void this.#due.delete(timer),
      restart: next => void this.#due.set(timer, { atMs: this.#ms + next, run }),
    };
    timer.restart(ms);
    return timer;
  };

  /** Moves the time in small steps, and lets what was waiting go on after each. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 10) {
      this.#ms += Math.min(left, 10);
      for (const [timer, { atMs, run }] of this.#due) {
        if (atMs > this.#ms) continue;
        this.#due.delete(timer);
        run();
      }
      await setImmediate();
    }
  }
}

let time = new TestTime();
beforeEach(() => {
  time = new TestTime();
});
const ring = (count: number): KeyRing => new KeyRing(count, { runtime: time });
const status = (code: number, facts: { retryAfterMs?: number; meaning?: FailureMeaning } = {}): UpstreamFailure =>
  new UpstreamFailure('status', { status: code, ...facts });
const picked = (keys: KeyRing, by: Hold, model = 'm'): string | undefined => names[keys.pick(by, model) ?? -1];

/** Lets a new request use the next key, and fail with it. Returns the key. */
function refuse(keys: KeyRing, failure: UpstreamFailure, model = 'm'): number | undefined {
  const request = hold();
  const index = keys.pick(request, model);
  if (index !== undefined) keys.learn(request, model, index, failure);
  return index;
}

test('keys are used in turn', () => {
  const keys = ring(3);
  expect([1, 2, 3, 4].map(() => picked(keys, hold()))).toEqual(['a', 'b', 'c', 'a']);
});

test('requests with the same affinity get the same key while it is ready; others keep theirs', async () => {
  const keys = ring(3);
  const texts = Array.from({ length: 300 }, (_, index) => `conversation ${index}`);
  const pickAll = (): (number | undefined)[] => texts.map(text => keys.pick(hold(), 'm', text));
  const before = pickAll();
  expect(pickAll()).toEqual(before);
  for (const index of [0, 1, 2]) expect(before.filter(key => key === index).length).toBeGreaterThan(60);
  const request = hold();
  keys.learn(request, 'm', 1, status(429));
  const resting = pickAll();
  expect(resting.filter((key, at) => before[at] !== 1 && key !== before[at])).toEqual([]);
  expect(new Set(resting)).toEqual(new Set([0, 2]));
  await time.pass(1_000);
  const after = pickAll();
  // The key is tried by one of them.
  expect(after.filter((key, at) => before[at] === 1 && key === 1)).toHaveLength(1);
  keys.works(request, 'm', 1);
});

test('a provider without keys is used as if it had one key, which can be refused', () => {
  const keys = ring(0);
  const request = hold();
  expect(keys.pick(request, 'm')).toBe(0);
  // True: the request should try another key.
  expect(keys.learn(request, 'm', 0, status(401))).toBe(true);
  expect([keys.pick(request, 'm'), keys.pick(hold(), 'm'), keys.restMs('m')]).toEqual([undefined, 0, 0]);
});

describe('a refused key', () => {
  test.each([
    [401, ['b', 'b']],
    [402, ['b', 'b']],
    [403, ['b', 'a']],
  ])(
    'that got %i is not used again by its request; others do not use it while it rests: model m, model n',
    (code, others) => {
      const keys = ring(2);
      const request = hold();
      expect([picked(keys, request), keys.learn(request, 'm', 0, status(code))]).toEqual(['a', true]);
      expect([1, 2].map(() => picked(keys, request))).toEqual(['b', 'b']);
      expect([1, 2].map(() => picked(keys, hold()))).toEqual(['b', 'b']);
      expect(['m', 'n'].map(model => picked(keys, hold(), model))).toEqual(others);
    },
  );

  test.each([401, 402, 403])('that is the last one never rests: each request tries it after %i', code => {
    const keys = ring(2);
    expect([1, 2, 3, 4].map(() => refuse(keys, status(code)))).toEqual([0, 1, 1, 1]);
    expect([keys.restMs('m'), keys.health().map(({ state }) => state)]).toEqual([0, ['resting', 'working']]);
    const only = ring(1);
    expect([1, 2, 3].map(() => refuse(only, status(code)))).toEqual([0, 0, 0]);
    expect([only.restMs('m'), only.health()[0]?.refusals]).toEqual([0, 3]);
  });

  test('that got 404 is skipped only by its request, and for that model', () => {
    const keys = ring(1);
    const request = hold();
    picked(keys, request);
    expect(keys.learn(request, 'm', 0, status(404))).toBe(true);
    expect([picked(keys, request), picked(keys, request, 'n'), picked(keys, hold())]).toEqual([undefined, 'a', 'a']);
  });

  test('rests 30 s, which doubles up to 10 minutes; after each rest a single request tries it', async () => {
    const keys = ring(2);
    const rests: number[] = [];
    for (let turn = 0; turn < 7; turn += 1) {
      const request = hold();
      while (picked(keys, request) !== 'a');
      if (turn > 0) expect([keys.health()[0]?.state, picked(keys, hold())]).toEqual(['probing', 'b']);
      keys.learn(request, 'm', 0, status(401));
      const { restsUntilMs = 0 } = keys.health()[0] ?? {};
      rests.push((restsUntilMs - time.now()) / 1_000);
      await time.pass(restsUntilMs - time.now());
    }
    expect(rests).toEqual([30, 60, 120, 240, 480, 600, 600]);
  });

  test('is known by the meaning of the error, whatever its status is', () => {
    const keys = ring(2);
    expect([refuse(keys, status(400, { meaning: 'billing' })), picked(keys, hold())]).toEqual([0, 'b']);
    expect(keys.health().map(({ state }) => state)).toEqual(['resting', 'working']);
    const others = ring(2);
    const request = hold();
    picked(others, request);
    // A refusal of the request says that the key was accepted.
    expect(others.learn(request, 'm', 0, status(403, { meaning: 'request' }))).toBe(false);
    expect(others.health().map(({ state }) => state)).toEqual(['working', 'working']);
  });
});

test.each([400, 408, 500, 503])('%i says nothing about a key', code => {
  const keys = ring(1);
  const request = hold();
  picked(keys, request);
  expect([keys.learn(request, 'm', 0, status(code)), picked(keys, request)]).toEqual([false, 'a']);
});

describe('a key at its rate limit', () => {
  test('rests for the model only, as long as the provider says', async () => {
    const keys = ring(1);
    refuse(keys, status(429, { retryAfterMs: 7_000 }));
    expect([keys.restMs('m'), keys.restMs('n'), picked(keys, hold()), picked(keys, hold(), 'n')]).toEqual([
      7_000,
      0,
      undefined,
      'a',
    ]);
    await time.pass(7_000);
    expect([keys.restMs('m'), picked(keys, hold())]).toEqual([0, 'a']);
  });

  test('rests 1 s, which doubles up to 30 s; all attempts of a request count as one', async () => {
    const keys = ring(1);
    const rests: number[] = [];
    for (let turn = 0; turn < 7; turn += 1) {
      const request = hold();
      for (let attempt = 0; attempt < 3; attempt += 1) {
        expect(picked(keys, request)).toBe('a');
        expect(keys.learn(request, 'm', 0, status(429))).toBe(false);
        if (attempt === 2) rests.push(keys.restMs('m') / 1_000);
        await time.pass(keys.restMs('m'));
      }
    }
    expect([rests, keys.health()[0]?.refusals]).toEqual([[1, 2, 4, 8, 16, 30, 30], 7]);
  });

  test('is left for another one at once', () => {
    const keys = ring(3);
    const request = hold();
    picked(keys, request);
    expect(keys.learn(request, 'm', 0, status(429))).toBe(true);
    expect([1, 2, 3, 4].map(() => picked(keys, request))).toEqual(['b', 'c', 'b', 'c']);
  });

  test('is not rested longer by requests that were already running', () => {
    const keys = ring(1);
    const [first, second] = [hold(), hold()];
    picked(keys, first);
    picked(keys, second);
    keys.learn(first, 'm', 0, status(429));
    keys.learn(second, 'm', 0, status(429));
    expect([keys.restMs('m'), keys.health()[0]?.refusals]).toEqual([1_000, 2]);
  });

  test('is tried by one request after its rest, and by the next if that says nothing about the key', async () => {
    const keys = ring(1);
    refuse(keys, status(429));
    await time.pass(1_000);
    const [second, third] = [hold(), hold()];
    expect([picked(keys, second), picked(keys, third)]).toEqual(['a', undefined]);
    keys.learn(second, 'm', 0, status(503));
    expect(picked(keys, third)).toBe('a');
    keys.learn(third, 'm', 0, status(400));
    expect(keys.health()[0]?.state).toBe('working');
  });
});

describe('requests that wait for a key', () => {
  interface Wish {
    readonly name: string;
    readonly owner: number;
    readonly waitMs?: number;
  }

  /** Lets requests wait for the only key. Returns what happened, and a function to begin the next one; each request uses the key when it gets it, and reports `answers`. */
  function queue(keys: KeyRing, answers: (name: string) => UpstreamFailure | undefined) {
    const log: string[] = [];
    const begin = async ({ name, owner, waitMs = 30_000 }: Wish): Promise<void> => {
      const keyUser = hold();
      const signal = new AbortController().signal;
      const isReady = await keys.whenReady('m', { keyUser, owner, waitMs, signal });
      log.push(isReady ? name : `${name} none`);
      const index = isReady ? keys.pick(keyUser, 'm') : undefined;
      if (index === undefined) return;
      const failure = answers(name);
      await setImmediate();
      if (failure === undefined) keys.works(keyUser, 'm', index);
      else keys.learn(keyUser, 'm', index, failure);
    };
    return { log, begin };
  }

  test('are served when its rest ends, owners in rotation, one first and then more and more', async () => {
    const keys = ring(1);
    refuse(keys, status(429));
    const { log, begin } = queue(keys, () => undefined);
    for (let number = 1; number <= 4; number += 1) void begin({ name: `one ${number}`, owner: 1 });
    void begin({ name: 'two 1', owner: 2 });
    void begin({ name: 'three 1', owner: 3 });
    await time.pass(900);
    expect([log, keys.restMs('m') > 0]).toEqual([[], true]);
    await time.pass(400);
    expect(log).toEqual(['one 1', 'two 1', 'three 1', 'one 2', 'one 3', 'one 4']);
    expect(keys.restMs('m')).toBe(0);
  });

  test('go on waiting if the one that tries the key is refused again, unless it will take too long for them', async () => {
    const keys = ring(1);
    refuse(keys, status(429));
    let refusals = 0;
    const { log, begin } = queue(keys, () => {
      refusals += 1;
      return refusals === 1 ? status(429, { retryAfterMs: 10_000 }) : undefined;
    });
    void begin({ name: 'first', owner: 1 });
    void begin({ name: 'patient', owner: 2 });
    void begin({ name: 'hurried', owner: 3, waitMs: 5_000 });
    await time.pass(1_300);
    expect(log).toEqual(['first', 'hurried none']);
    await time.pass(10_000);
    expect(log).toEqual(['first', 'hurried none', 'patient']);
  });

  test('do not wait at all for a longer rest than they may wait', async () => {
    const keys = ring(1);
    refuse(keys, status(429, { retryAfterMs: 40_000 }));
    const { log, begin } = queue(keys, () => undefined);
    await begin({ name: 'first', owner: 1 });
    expect(log).toEqual(['first none']);
  });

  test('leave their place when they are abandoned, and the next one is served although the first leaves', async () => {
    const keys = ring(1);
    refuse(keys, status(429));
    const leaving = new AbortController();
    const left = keys.whenReady('m', { keyUser: hold(), owner: 1, waitMs: 30_000, signal: leaving.signal });
    // Is served, but never uses the key.
    const idle = keys.whenReady('m', {
      keyUser: hold(),
      owner: 2,
      waitMs: 30_000,
      signal: new AbortController().signal,
    });
    const { log, begin } = queue(keys, () => undefined);
    void begin({ name: 'last', owner: 3 });
    leaving.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    await time.pass(1_600);
    expect([await idle, log]).toEqual([true, ['last']]);
  });
});

test('changes are reported, with the provider’s message for the log', async () => {
  const seen: unknown[] = [];
  const keys = new KeyRing(1, {
    runtime: time,
    changed: (health, change) => seen.push([change, health.state, health.last?.message]),
  });
  refuse(keys, new UpstreamFailure('status', { status: 401, logMessage: 'No such key.' }));
  refuse(keys, new UpstreamFailure('status', { status: 429, logMessage: 'Slow down.' }));
  await time.pass(1_000);
  const next = hold();
  picked(keys, next);
  keys.works(next, 'm', 0);
  expect(seen).toEqual([
    ['refused', 'working', 'No such key.'],
    ['refused', 'resting', 'Slow down.'],
    ['works', 'working', 'Slow down.'],
  ]);
});
