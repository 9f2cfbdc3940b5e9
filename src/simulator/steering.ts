import { UpstreamFailure } from '../generation/upstream.ts';

const ignorable = ['stop', 'max_tokens', 'parallel', 'tool_choice', 'max_tool_calls'] as const;
const finishes = ['stop', 'length', 'refusal', 'context_window', 'pause'] as const;

/** Settings of a request that a steering line can tell the simulator to ignore, to show that the gateway itself enforces them. */
export type IgnoredSetting = (typeof ignorable)[number];

/** A finish reason that a steering line can ask for. */
export type RequestedFinish = (typeof finishes)[number];

/** A fault that a steering line asks for after a number of text deltas. */
export interface RequestedFault {
  readonly kind: 'fail' | 'cut' | 'stall';
  readonly afterDeltas: number;
}

/** The behaviour that a steering line requests. An absent field has its default. See docs/providers.md "Controlling the built-in models". */
export interface Steering {
  readonly tokens?: number;
  /** Tokens a second; 0: as fast as possible. */
  readonly tps?: number;
  readonly delayMs?: number;
  readonly say?: string;
  readonly calls?: number;
  readonly finish?: RequestedFinish;
  readonly ignore?: ReadonlySet<IgnoredSetting>;
  readonly noUsage?: boolean;
  readonly status?: number;
  readonly times?: number;
  readonly faults?: readonly RequestedFault[];
}

const prefix = '!sim ';

/** A text without its steering lines, and the last of these lines, which is undefined if there is none. */
export interface SplitText {
  readonly plain: string;
  readonly line: string | undefined;
}

/** Removes the steering lines from a user's text. `steers`: false if such lines are ordinary text. */
export function splitSteering(text: string, steers = true): SplitText {
  if (!steers || !text.includes(prefix)) return { plain: text, line: undefined };
  const lines = text.split(/\r\n|\r|\n/);
  return {
    plain: lines.filter(line => !line.startsWith(prefix)).join('\n'),
    line: lines.findLast(line => line.startsWith(prefix)),
  };
}

function refuse(message: string): UpstreamFailure {
  return new UpstreamFailure('status', { status: 400, requested: true, message: `!sim line: ${message}` });
}

function integer(key: string, text: string, [min, max]: readonly [min: number, max: number]): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw refuse(`${key} must be a whole number from ${min} to ${max}, not "${text}".`);
}

function pace(text: string): number {
  const value = /^\d{1,7}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (value === 0 || (value >= 0.001 && value <= 1_000_000)) return value;
  throw refuse(`tps must be 0 or a number from 0.001 to 1000000, not "${text}".`);
}

function readChoice<T extends string>(key: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find(each => each === text);
  if (found !== undefined) return found;
  throw refuse(`${key} must be one of ${allowed.join(', ')}, not "${text}".`);
}

type Reader = (text: string, key: string, countMax: number) => Steering;

const readFault: Reader = (text, key, countMax) => ({
  faults: [{ kind: readChoice('kind', key, ['fail', 'cut', 'stall']), afterDeltas: integer(key, text, [0, countMax]) }],
});

/** The function that reads the value of each key. `countMax`: the maximum for tokens and deltas: the model's output limit + 1,024. */
const readers: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ['tokens', (text, key, countMax) => ({ tokens: integer(key, text, [0, countMax]) })],
  ['tps', text => ({ tps: pace(text) })],
  ['delay_ms', (text, key) => ({ delayMs: integer(key, text, [0, 600_000]) })],
  ['say', say => ({ say })],
  ['calls', (text, key) => ({ calls: integer(key, text, [0, 128]) })],
  ['finish', (text, key) => ({ finish: readChoice(key, text, finishes) })],
  ['ignore', (text, key) => ({ ignore: new Set(text.split(',').map(each => readChoice(key, each, ignorable))) })],
  ['usage', (text, key) => ({ noUsage: readChoice(key, text, ['none']) === 'none' })],
  ['status', (text, key) => ({ status: integer(key, text, [400, 599]) })],
  ['times', (text, key) => ({ times: integer(key, text, [0, 1_000]) })],
  ['fail', readFault],
  ['cut', readFault],
  ['stall', readFault],
]);

/**
 * Parses a steering line for a model with an output limit of `maxOutputTokens`. Throws `UpstreamFailure` (status 400,
 * `requested`), which names an unknown key or a value out of bounds. If a key occurs twice, the last one counts.
 */
export function parseSteering(line: string, maxOutputTokens: number): Steering {
  let steering: Steering = {};
  let rest = line.slice(prefix.length);
  for (;;) {
    rest = rest.replace(/^[ \t]+/, '');
    if (rest === '') return steering;
    const [word = ''] = rest.startsWith('say=') ? [rest] : rest.split(/[ \t]/, 1);
    rest = rest.slice(word.length);
    const [key = ''] = word.split('=', 1);
    const reader = readers.get(key);
    if (reader === undefined) throw refuse(`unknown key "${key}"; the keys are ${[...readers.keys()].join(', ')}.`);
    const read = reader(word.slice(key.length + 1), key, maxOutputTokens + 1_024);
    const faults = mergeFaults(steering, read);
    steering = { ...steering, ...read, ...(faults.length === 0 ? {} : { faults }) };
  }
}

function mergeFaults(before: Steering, { faults: added = [] }: Steering): RequestedFault[] {
  return [...(before.faults ?? []).filter(fault => added.every(each => each.kind !== fault.kind)), ...added];
}
