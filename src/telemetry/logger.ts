import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import { type Clock, isoTime, systemClock } from '../lib/clock.ts';
import { LineBuffer } from './line-buffer.ts';

type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The process's log: JSON lines, one per request. Prompts, outputs, keys and raw bodies never reach it. */
export interface Logger extends Pick<PinoLogger, LineLevel> {
  /** Writes a line with level and time. `members`: its other members, already as JSON and each with a comma before it (`,"status":200,"msg":"request"`). */
  line(level: LineLevel, members: string): void;
}

/** The lowest level that is written. */
export type LogLevel = LineLevel | 'silent';

/** The options of a logger. */
export interface LoggerOptions {
  readonly level: LogLevel;
  /** Where lines are written to; absent: to standard error, buffered for at most 100 ms. */
  readonly destination?: DestinationStream;
  /** The clock; absent: that of the system. */
  readonly clock?: Clock;
  /** The number of the worker that logs, as a member of every line; absent: lines have no such member. */
  readonly worker?: number;
}

const causesMax = 5;

/** Names of errors whose messages may quote a client or an upstream. Their messages are not logged. */
const foreignMessages = new Set(['GatewayError', 'UpstreamFailure', 'ConnectError', 'SyntaxError']);
/** Names of errors that clients and upstreams cause. They are routine, so their stack traces are not logged. */
const routine = new Set(['GatewayError', 'UpstreamFailure']);

/**
 * Makes the log. Lines are buffered, because a system call for each line would cost more than making the line. The buffer
 * is written when it is full, after 100 ms, and when the process ends. Lines that can't be written are lost; once lines can be written again, one says how many.
 */
export function createLogger({ level, destination, clock = systemClock, worker }: LoggerOptions): Logger {
  const stream = destination ?? new LineBuffer();
  const timestamp = createTimestamp(clock);
  const formatters = { level: (label: string) => ({ level: label }) };
  const base = worker === undefined ? null : { worker };
  const log = pino({ level, base, timestamp, formatters, serializers: { error: describeError } }, stream);
  if (stream instanceof LineBuffer)
    stream.onRestored(lines => log.warn({ lines }, 'lines of this log were lost, because they could not be written'));
  const named = worker === undefined ? '' : `,"worker":${worker}`;
  const line = (lineLevel: LineLevel, members: string): void => {
    const value = pino.levels.values[lineLevel] ?? 0;
    if (value >= log.levelVal) stream.write(`{"level":"${lineLevel}"${timestamp()}${named}${members}}\n`);
  };
  return Object.assign(log, { line });
}

/**
 * Returns a function that writes the time as a JSON member. Formatting a date costs more than the rest of the line, so
 * the text up to the second is reused within that second.
 */
function createTimestamp(clock: Clock): () => string {
  let keptSecond = -1;
  let begun = '';
  return () => {
    const now = clock.now();
    const second = Math.floor(now / 1000);
    if (second !== keptSecond) {
      keptSecond = second;
      begun = `,"time":"${isoTime(second * 1000).slice(0, -4)}`;
    }
    const ms = now - second * 1000;
    return `${begun}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z"`;
  };
}

/**
 * What is logged of an error and its causes: kind, code, where it was thrown (unless it is routine), and the message (only if it can't
 * quote anyone else).
 */
export interface ErrorDescription {
  readonly name: string;
  readonly message?: string;
  readonly code?: string | number;
  readonly kind?: string;
  /** The status that an upstream answered with. */
  readonly status?: number;
  readonly at?: readonly string[];
  readonly cause?: ErrorDescription;
}

/** Describes a thrown value and its causes, at most five. */
export function describeError(thrown: unknown): ErrorDescription {
  return describe(thrown, 0, false);
}

/** `isRoutine`: true if the value is the cause of a routine failure. */
function describe(thrown: unknown, depth: number, isRoutine: boolean): ErrorDescription {
  if (!(thrown instanceof Error)) return { name: typeof thrown };
  const omitsStack = isRoutine || routine.has(thrown.name);
  const { code, kind, facts } = thrown as { code?: unknown; kind?: unknown; facts?: { status?: unknown } };
  const frames = (thrown.stack ?? '').split('\n').filter(line => line.startsWith('    at '));
  return {
    name: thrown.name,
    ...(foreignMessages.has(thrown.name) ? {} : { message: thrown.message }),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    ...(typeof kind === 'string' ? { kind } : {}),
    ...(typeof facts?.status === 'number' ? { status: facts.status } : {}),
    ...(omitsStack ? {} : { at: frames.map(line => line.trim()) }),
    ...(thrown.cause === undefined || depth >= causesMax
      ? {}
      : { cause: describe(thrown.cause, depth + 1, omitsStack) }),
  };
}
