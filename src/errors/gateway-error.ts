import { type ErrorCode, type ErrorFacets, errorTable } from './error-table.ts';

/** The state of a request or token limit, after a request if there was one. Times are in ms since 1970 UTC. */
export interface WindowState {
  /** The field of the key that created the limit, or `limit`. */
  readonly limit: 'minute_limit' | 'daily_limit' | 'free_minute' | 'free_day' | 'limit';
  readonly unit: 'requests' | 'tokens';
  readonly max: number;
  readonly remaining: number;
  /** When the limit resets; Infinity: never by itself. */
  readonly resetAtMs: number;
}

/** The limit that refused a request. Amounts are in `unit`; `used` is settled plus held. Absent `resetAtMs`: it never resets by itself. */
export interface DenialFacts {
  /** The field of the key that created the limit, `limit`, or the payer that can't pay. */
  readonly limit: WindowState['limit'] | 'monthly_limit' | 'balance' | 'subscription';
  readonly unit: 'requests' | 'nano_usd' | 'tokens' | 'concurrent';
  readonly used: number | bigint;
  readonly max: number | bigint;
  readonly resetAtMs?: number;
  /** The limit; absent if a balance or a plan can't pay. */
  readonly row?: DeniedLimit;
}

/** Identifies the limit. */
export interface DeniedLimit {
  readonly id: number;
  readonly scope: 'account' | 'group' | 'key';
  readonly scopeId: number;
  /** null for `concurrent`. */
  readonly window: 'minute' | 'hour' | 'day' | 'week' | 'month' | 'total' | null;
}

/** A field that does not fit its schema. `inputJson`: its value; absent if the field is missing or secret. */
export interface Violation {
  readonly path: readonly string[];
  readonly message: string;
  readonly type: string;
  readonly inputJson?: string;
}

/** The facts of an error besides its code and message. */
export interface ErrorFacts {
  /** The field that caused the error, for example `messages.0.content`. */
  readonly param?: string;
  /** The upstream's own error code, which the details of an error in the Anthropic interface contain. */
  readonly detailCode?: string;
  /** The advice to the client; absent: the tip of the table. */
  readonly tip?: string;
  /** How long to wait, if waiting helps. */
  readonly retryAfterMs?: number;
  /** Overrides the table's `retry`. */
  readonly retry?: boolean;
  readonly denial?: DenialFacts;
  /** The request and token limits that apply to the key, tightest first. */
  readonly limits?: readonly WindowState[];
  readonly violations?: readonly Violation[];
  /** The request's id, for an answering process that does not know it. */
  readonly requestId?: string;
  /** For the log only; never reaches a caller. */
  readonly cause?: unknown;
}

/**
 * How much of a caller's input an error repeats at most: violations, characters of a text, members of a path. Otherwise
 * a small wrong body could cause a large answer.
 */
const violationsMax = 100;
const textMax = 2_000;
const pathMax = 64;

function bounded(text: string): string {
  return text.length <= textMax ? text : `${text.slice(0, textMax).toWellFormed()}…`;
}

function boundedFacts(facts: ErrorFacts): ErrorFacts {
  const { param, violations } = facts;
  return {
    ...facts,
    ...(param === undefined ? {} : { param: bounded(param) }),
    ...(violations === undefined ? {} : { violations: violations.slice(0, violationsMax).map(boundedViolation) }),
  };
}

function boundedViolation({ path, message, ...rest }: Violation): Violation {
  return { ...rest, path: path.slice(0, pathMax).map(name => bounded(name)), message: bounded(message) };
}

/** The error class for everything that a caller is told: `message` is for the caller, `cause` only for the log. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts = {}) {
    super(bounded(message), facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.facts = boundedFacts(facts);
  }

  get facets(): ErrorFacets {
    return errorTable[this.code];
  }

  get tip(): string {
    return this.facts.tip ?? this.facets.tip;
  }

  get retry(): boolean | undefined {
    return this.facts.retry ?? this.facets.retry;
  }
}

/** Converts a thrown value to a `GatewayError`. A `GatewayError` is returned unchanged; anything else becomes the cause of an `internal` error. */
export function toGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  return new GatewayError('internal', 'The gateway failed.', { cause: thrown });
}
