import { destination, type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import { type Clock, isoTime, systemClock } from '../lib/clock.ts';

type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The process's log: JSON lines, one per request. Prompts, outputs, keys and raw bodies never reach it. */
export interface Logger extends Pick<PinoLogger, LineLevel> {
  /** Writes a line whose members after level and time are already JSON, each with a comma before it (`,"status":200,"msg":"request"`). */
  line(level: LineLevel, members: string): void;
}

/** The lowest level that is written. */
export type LogLevel = LineLevel | 'silent';

/** The options of a logger. */
export interface LoggerOptions {
  readonly level: LogLevel;
  /** The destination of lines; absent: standard error, buffered for at most `flushEveryMs`. */
  readonly destination?: DestinationStream;
  /** The clock; absent: the machine's. */
  readonly clock?: Clock;
  /** The number of the worker that logs, a member of every line; absent: none. */
  readonly worker?: number;
}

const bufferCharacters = 15_360;
const flushEveryMs = 100;
const causesMax = 5;

/** Errors whose messages may quote a client or an upstream: only their kind is logged. */
const foreignMessages = new Set(['GatewayError', 'UpstreamFailure', 'ConnectError', 'SyntaxError']);
/** Failures of others, which are routine: their stack traces say nothing. */
const routine = new Set(['GatewayError', 'UpstreamFailure']);

/**
 * Makes the log. Lines are buffered, because a system call per request would cost more than the line: the buffer is
 * written when it is full, after 100 ms, and when the process ends.
 */
export function createLogger({
  level,
  destination: stream = new LineBuffer(),
  clock = systemClock,
  worker,
}: LoggerOptions): Logger {
  const timestamp = createTimestamp(clock);
  const formatters = { level: (label: string) => ({ level: label }) };
  const base = worker === undefined ? null : { worker };
  const log = pino({ level, base, timestamp, formatters, serializers: { error: describeError } }, stream);
  const named = worker === undefined ? '' : `,"worker":${worker}`;
  const line = (lineLevel: LineLevel, members: string): void => {
    const value = pino.levels.values[lineLevel] ?? 0;
    if (value >= log.levelVal) stream.write(`{"level":"${lineLevel}"${timestamp()}${named}${members}}\n`);
  };
  return Object.assign(log, { line });
}

/**
 * Returns a function that writes the time as a JSON member. Formatting a date costs more than the rest of the line:
 * the second's part is reused for the lines of that second.
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
    return `${begun}${String(now - second * 1000).padStart(3, '0')}Z"`;
  };
}

/**
 * Buffers lines on their way to standard error. Each `write` of pino's own stream measures everything that waits,
 * which costs more than the rest of a line: it gets many lines at once.
 */
class LineBuffer implements DestinationStream {
  readonly #stream: ReturnType<typeof destination>;
  #lines: string[] = [];
  #characters = 0;

  constructor() {
    // Registered before the stream is made, which writes its buffer when the process ends.
    process.on('exit', () => this.#handOver());
    this.#stream = destination({ dest: 2, sync: false, minLength: bufferCharacters });
    setInterval(() => this.#flush(), flushEveryMs).unref();
  }

  write(line: string): void {
    this.#lines.push(line);
    this.#characters += line.length;
    if (this.#characters >= bufferCharacters) this.#flush();
  }

  #flush(): void {
    if (this.#lines.length === 0) return;
    this.#handOver();
    this.#stream.flush();
  }

  #handOver(): void {
    this.#stream.write(this.#lines.join(''));
    this.#lines = [];
    this.#characters = 0;
  }
}

/**
 * The loggable facts of an error and its causes: kind, code, where it was thrown unless it is routine, and the message only if it is this
 * program's own.
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

/** Describes whatever was thrown, its causes included (at most five). */
export function describeError(thrown: unknown): ErrorDescription {
  return describe(thrown, 0, false);
}

/** `isRoutine`: it is the cause of a routine failure. */
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
