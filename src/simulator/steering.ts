import { UpstreamFailure } from '../generation/upstream.ts';

/** Settings that the simulator can be told to ignore, so that the gateway's own enforcement shows. */
export type IgnoredSetting = 'stop' | 'max_tokens' | 'parallel' | 'tool_choice' | 'max_tool_calls';

/** How an answer is told to end. */
export type OrderedFinish = 'stop' | 'length' | 'refusal' | 'context_window' | 'pause';

/** Something that goes wrong after that many text deltas. */
export interface OrderedFault {
  readonly kind: 'fail' | 'cut' | 'stall';
  readonly afterDeltas: number;
}

/** What a steering line orders; what is absent is as usual. Source: decisions §7. */
export interface Steering {
  readonly tokens?: number;
  /** Tokens a second; 0: no pace. */
  readonly tps?: number;
  readonly delayMs?: number;
  readonly say?: string;
  readonly calls?: number;
  readonly finish?: OrderedFinish;
  readonly ignore?: ReadonlySet<IgnoredSetting>;
  readonly noUsage?: boolean;
  readonly status?: number;
  readonly times?: number;
  readonly faults?: readonly OrderedFault[];
}

const prefix = '!sim ';
const ignorable: readonly IgnoredSetting[] = ['stop', 'max_tokens', 'parallel', 'tool_choice', 'max_tool_calls'];
const finishes: readonly OrderedFinish[] = ['stop', 'length', 'refusal', 'context_window', 'pause'];
const keys = 'tokens, tps, delay_ms, say, calls, finish, ignore, usage, status, times, fail, cut, stall';

/** A text without its steering lines, and the last of these; undefined where it has none. */
export interface SplitText {
  readonly plain: string;
  readonly line: string | undefined;
}

/** Takes the steering lines out of a user's text. */
export function splitSteering(text: string): SplitText {
  if (!text.includes(prefix)) return { plain: text, line: undefined };
  const lines = text.split(/\r\n|\r|\n/);
  return {
    plain: lines.filter(line => !line.startsWith(prefix)).join('\n'),
    line: lines.findLast(line => line.startsWith(prefix)),
  };
}

function refuse(message: string): UpstreamFailure {
  return new UpstreamFailure('status', { status: 400, ordered: true, message: `!sim line: ${message}` });
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

function oneOf<T extends string>(key: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find(each => each === text);
  if (found !== undefined) return found;
  throw refuse(`${key} must be one of ${allowed.join(', ')}, not "${text}".`);
}

/** One `key=value`. `countMax` bounds tokens and deltas: the model's output limit + 1,024. */
function readPair(key: string, text: string, countMax: number): Steering {
  switch (key) {
    case 'tokens':
      return { tokens: integer(key, text, [0, countMax]) };
    case 'tps':
      return { tps: pace(text) };
    case 'delay_ms':
      return { delayMs: integer(key, text, [0, 600_000]) };
    case 'calls':
      return { calls: integer(key, text, [0, 128]) };
    case 'finish':
      return { finish: oneOf(key, text, finishes) };
    case 'ignore':
      return { ignore: new Set(text.split(',').map(each => oneOf(key, each, ignorable))) };
    case 'usage':
      return { noUsage: oneOf(key, text, ['none']) === 'none' };
    case 'status':
      return { status: integer(key, text, [400, 599]) };
    case 'times':
      return { times: integer(key, text, [0, 1_000]) };
    case 'fail':
    case 'cut':
    case 'stall':
      return { faults: [{ kind: key, afterDeltas: integer(key, text, [0, countMax]) }] };
    default:
      throw refuse(`unknown key "${key}"; the keys are ${keys}.`);
  }
}

/**
 * What a steering line orders, for a model with that output limit. Throws `UpstreamFailure` (status 400, ordered) that names an unknown key or a
 * value out of bounds. Of a key that stands twice the last counts.
 */
export function parseSteering(line: string, maxOutputTokens: number): Steering {
  let steering: Steering = {};
  let rest = line.slice(prefix.length);
  for (;;) {
    rest = rest.replace(/^[ \t]+/, '');
    if (rest === '') return steering;
    if (rest.startsWith('say=')) return { ...steering, say: rest.slice('say='.length) };
    const [word = ''] = rest.split(/[ \t]/, 1);
    rest = rest.slice(word.length);
    const equals = word.indexOf('=');
    const key = equals < 0 ? word : word.slice(0, equals);
    const read = readPair(key, equals < 0 ? '' : word.slice(equals + 1), maxOutputTokens + 1_024);
    steering = { ...steering, ...read, ...mergeFaults(steering, read) };
  }
}

function mergeFaults(before: Steering, read: Steering): Pick<Steering, 'faults'> {
  const added = read.faults ?? [];
  const kept = (before.faults ?? []).filter(fault => added.every(each => each.kind !== fault.kind));
  return added.length + kept.length === 0 ? {} : { faults: [...kept, ...added] };
}
