import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CacheLifetime, type Item, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { Usage } from '../gen/tollgate/v1/event_pb.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { ask, textMessage, tool, user } from './fixtures/ask.ts';
import { createSimulator } from './simulator.ts';

const { CACHE_LIFETIME_5M, CACHE_LIFETIME_1H } = CacheLifetime;
const minute = 60_000;

/** Returns a long text, which differs for each name. */
function text(name: string, length = 400): string {
  return Array.from({ length }, (_, at) => `${name} says word ${at}.`).join(' ');
}

function hinted(item: Item, lifetime: CacheLifetime): Item {
  const copy = structuredClone(item);
  if (copy.content.case === 'message') {
    const part = copy.content.value.parts.at(-1);
    if (part !== undefined) part.cache = { $typeName: 'tollgate.v1.CacheHint', lifetime };
  }
  return copy;
}

/** Returns a clock that can be set, and a function that returns the usage that the simulator reports for a conversation. */
function cache(model: string): {
  clock: { now: () => number; at: number };
  usage: (items: Item[], more?: object) => Promise<number[]>;
} {
  const clock = { at: 1_000_000, now: () => clock.at };
  const simulator = createSimulator({
    tokensPerSecond: 0,
    steering: true,
    runtime: { ...systemRuntime, now: clock.now },
  });
  return {
    clock,
    usage: async (items, more = {}) => {
      const usage: Partial<Usage> = (await ask(simulator, { items, ...more }, { model })).completed?.usage ?? {};
      const { inputTokens = -1, cacheReadTokens = -1, cacheWrite5mTokens = -1, cacheWrite1hTokens = -1 } = usage;
      return [inputTokens, cacheReadTokens, cacheWrite5mTokens, cacheWrite1hTokens];
    },
  };
}

function sum(buckets: readonly number[]): number {
  return buckets.reduce((total, each) => total + each, 0);
}

describe('a cache hint', () => {
  const system = textMessage(Role.SYSTEM, text('system'));

  test('writes the prefix once and reads it from then on, for five minutes after the last use', async () => {
    const { clock, usage } = cache('sim/large');
    const items = [hinted(system, CACHE_LIFETIME_5M), user('one')];
    const plain = sum(await usage([system, user('one')]));
    const [rest = 0, read, written = 0, hour] = await usage(items);
    expect({ read, hour }).toEqual({ read: 0, hour: 0 });
    expect(written).toBeGreaterThan(2_000);
    expect(rest + written).toBe(plain);
    clock.at += 4 * minute;
    expect(await usage([hinted(system, CACHE_LIFETIME_5M), user('another question')])).toEqual([
      rest + 1,
      written,
      0,
      0,
    ]);
    clock.at += 4 * minute;
    expect(await usage(items)).toEqual([rest, written, 0, 0]);
    clock.at += 5 * minute;
    expect(await usage(items)).toEqual([rest, 0, written, 0]);
  });

  test('of an hour has its own bucket and lives an hour', async () => {
    const { clock, usage } = cache('sim/large');
    const items = [hinted(system, CACHE_LIFETIME_1H), user('one')];
    const [rest = 0, , , written = 0] = await usage(items);
    expect(written).toBeGreaterThan(2_000);
    clock.at += 59 * minute;
    expect(await usage(items)).toEqual([rest, written, 0, 0]);
    clock.at += 60 * minute;
    expect(await usage(items)).toEqual([rest, 0, 0, written]);
  });

  test('after a cached prefix writes only what follows it, each part with its lifetime', async () => {
    const { usage } = cache('sim/large');
    const first = [hinted(system, CACHE_LIFETIME_1H), user('one')];
    const [, , , written = 0] = await usage(first);
    const long = [hinted(system, CACHE_LIFETIME_1H), hinted(user(text('user')), CACHE_LIFETIME_5M), user('two')];
    const [, read, more = 0, hour] = await usage(long);
    expect({ read, hour }).toEqual({ read: written, hour: 0 });
    expect(more).toBeGreaterThan(2_000);
    expect((await usage(long))[1]).toBe(written + more);
  });

  test('for the whole request counts at its end, and one on a tool after the tools', async () => {
    const { usage } = cache('sim/large');
    const items = [system, user('one')];
    const whole = { cache: { lifetime: CACHE_LIFETIME_5M } };
    const [rest = 0, , written = 0] = await usage(items, whole);
    expect(rest).toBe(3);
    expect((await usage(items, whole))[1]).toBe(written);
    const next = [...items, textMessage(Role.ASSISTANT, 'fine'), user('two')];
    const [, read, added] = await usage(next, whole);
    expect({ read, added: (added ?? 0) > 0 }).toEqual({ read: written, added: true });
    const big = { ...tool('lookup', ['q'], text('tool')), cache: { lifetime: CACHE_LIFETIME_1H } };
    expect((await usage([user('hi')], { tools: [big] }))[3]).toBeGreaterThan(2_000);
  });

  test('on a short prefix, or none at all, caches nothing', async () => {
    const { usage } = cache('sim/large');
    const short = [hinted(textMessage(Role.SYSTEM, text('short', 100)), CACHE_LIFETIME_5M), user('one')];
    for (const items of [short, [system, user('one')]]) {
      for (let time = 0; time < 2; time += 1) expect((await usage(items)).slice(1)).toEqual([0, 0, 0]);
    }
  });

  test('on a model without prompt caching changes nothing', async () => {
    const { usage } = cache('sim/uncached');
    const items = [hinted(system, CACHE_LIFETIME_5M), user('one')];
    for (let time = 0; time < 2; time += 1) expect((await usage(items)).slice(1)).toEqual([0, 0, 0]);
  });
});

describe('automatic caching', () => {
  test('reads a common prefix of 1,024 tokens and more, in steps of 128, and writes for nothing', async () => {
    const { clock, usage } = cache('sim/small');
    const system = textMessage(Role.SYSTEM, text('system'));
    const [total = 0, ...first] = await usage([system, user('one')]);
    expect(first).toEqual([0, 0, 0]);
    const [rest = 0, read = 0, ...written] = await usage([system, user('two')]);
    expect(written).toEqual([0, 0]);
    expect(rest + read).toBe(total);
    expect(read % 128).toBe(0);
    expect(read).toBeGreaterThan(total - 300);
    clock.at += 5 * minute;
    expect((await usage([system, user('two')]))[1]).toBe(0);
    expect((await usage([textMessage(Role.SYSTEM, text('other')), user('two')]))[1]).toBe(0);
    const short = [textMessage(Role.SYSTEM, text('short', 100)), user('one')];
    await usage(short);
    expect((await usage(short))[1]).toBe(0);
  });
});

test('the buckets of any conversation sum to the whole input', async () => {
  const { usage } = cache('sim/large');
  const plain = cache('sim/uncached');
  const part = fc.record({
    name: fc.constantFrom('a', 'b'),
    length: fc.constantFrom(3, 150, 300),
    hint: fc.constantFrom(undefined, CACHE_LIFETIME_5M, CACHE_LIFETIME_1H),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 6 }), async parts => {
      const items = parts.map(({ name, length, hint }) => {
        const item = user(text(name, length));
        return hint === undefined ? item : hinted(item, hint);
      });
      const buckets = await usage(items);
      expect(Math.min(...buckets)).toBeGreaterThanOrEqual(0);
      expect(sum(buckets)).toBe(sum(await plain.usage(items)));
    }),
    { numRuns: 60 },
  );
});
