/** Mutations of valid requests. The same seed makes the same requests. */

/** Generates pseudo-random numbers in [0, 1) from a seed (mulberry32). */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let value = this.#state;
    value = Math.imul(value ^ (value >>> 15), value | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns one of the values. */
  pick<T>(values: readonly T[]): T {
    const value = values[Math.floor(this.next() * values.length)];
    if (value === undefined) throw new Error('nothing to pick from');
    return value;
  }

  /** Returns an integer from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }
}

const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);

/** Values that most fields must refuse; some are valid in a few fields. */
const hostile: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  -(2 ** 63),
  '',
  ' ',
  '\ud800',
  '\u0000',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  'x'.repeat(5000),
  'https://127.0.0.1:1/a.png',
  'data:image/png;base64,AAAA',
  'sim/small:flex',
  'auto',
  'none',
  [],
  {},
  [[]],
  [null],
  [1, 2, 3],
  { type: 'text' },
  { type: 'function' },
  { type: 'nothing' },
  { role: 'user' },
  { $ref: '#' },
  nested(40),
  Array.from({ length: 300 }, () => 'x'),
  Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`k${index}`, index])),
];

type Container = Record<string | number, unknown>;

/** Returns every object and array in a value. */
function containersIn(value: unknown): Container[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value as Container, ...Object.values(value).flatMap(containersIn)];
}

/** Returns a copy of a JSON value with one to three mutations. */
export function mutateJson(value: unknown, chance: Chance): unknown {
  const copy = { root: structuredClone(value) };
  for (let changes = 1 + chance.below(3); changes > 0; changes -= 1) {
    const container = chance.pick(containersIn(copy));
    const names = Object.keys(container);
    const name = names.length === 0 ? 'extra' : chance.pick(names);
    const way = chance.next();
    if (way < 0.6) container[name] = structuredClone(chance.pick(hostile));
    else if (way < 0.75 && container !== (copy as Container)) delete container[name];
    else if (way < 0.85)
      container[chance.pick(['extra', '__proto__x', 'stream', 'n', 'type', 'tools'])] = structuredClone(
        chance.pick(hostile),
      );
    else if (Array.isArray(container)) container.push(...structuredClone(container.slice(0, 50)));
    else container[name] = [container[name], container[name]];
  }
  return copy.root;
}

/** Returns a copy of bytes with some of them changed, cut off, doubled or inserted. */
export function mutateBytes(bytes: Buffer, chance: Chance): Buffer {
  const at = chance.below(bytes.length + 1);
  switch (chance.below(4)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([chance.below(256)]), bytes.subarray(at)]);
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes]);
    default: {
      const copy = Buffer.from(bytes);
      for (let flips = 1 + chance.below(8); flips > 0 && copy.length > 0; flips -= 1)
        copy[chance.below(copy.length)] = chance.below(256);
      return copy;
    }
  }
}
