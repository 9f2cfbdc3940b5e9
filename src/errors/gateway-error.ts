import { type ErrorCode, type ErrorFacets, errorTable } from './error-table.ts';

/** The state of a limit of requests or tokens after (or without) a request. Times in ms since 1970 UTC. */
export interface WindowState {
  /** The field of the key that created it, or `limit`. */
  readonly limit: 'minute_limit' | 'daily_limit' | 'free_minute' | 'free_day' | 'limit';
  readonly unit: 'requests' | 'tokens';
  readonly max: number;
  readonly remaining: number;
  /** Infinity: it never resets by itself. */
  readonly resetAtMs: number;
}

/** The limit that refused a request: amounts in `unit`, settled plus held. Absent `resetAtMs`: it never resets by itself. */
export interface DenialFacts {
  /** The field of the key that created it, `limit`, or what can't pay. */
  readonly limit: WindowState['limit'] | 'monthly_limit' | 'balance' | 'subscription';
  readonly unit: 'requests' | 'nano_usd' | 'tokens' | 'concurrent';
  readonly used: number | bigint;
  readonly max: number | bigint;
  readonly resetAtMs?: number;
  /** For a limit; absent if a balance or a plan can't pay. */
  readonly row?: DeniedLimit;
}

/** Identifies the limit. */
export interface DeniedLimit {
  readonly id: number;
  readonly scope: 'account' | 'group' | 'key';
  readonly scopeId: number;
  /** null: with `concurrent`. */
  readonly window: 'minute' | 'hour' | 'day' | 'week' | 'month' | 'total' | null;
}

/** One field that broke a schema. `inputJson` is absent if the value is absent or secret. */
export interface Violation {
  readonly path: readonly string[];
  readonly message: string;
  readonly type: string;
  readonly inputJson?: string;
}

/** The facts of an error besides its code and message. */
export interface ErrorFacts {
  /** The field that caused it ("messages.0.content"). */
  readonly param?: string;
  /** The upstream's own code, which clients of the Anthropic interface find in the details of an error. */
  readonly detailCode?: string;
  /** What to do next, if the table's tip is not the best. */
  readonly tip?: string;
  /** How long to wait, if waiting helps. */
  readonly retryAfterMs?: number;
  /** Overrides the table's `retry`. */
  readonly retry?: boolean;
  readonly denial?: DenialFacts;
  /** The limits of requests and tokens that bind the key, tightest first. */
  readonly limits?: readonly WindowState[];
  readonly violations?: readonly Violation[];
  /** The request's id, if the answering process does not know it. */
  readonly requestId?: string;
  /** For the log only; never reaches a caller. */
  readonly cause?: unknown;
}

/**
 * The most that an error repeats of a caller's input: violations, characters of a text, members of a path. Otherwise
 * a small wrong body would make a large answer.
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

/** The one error class: every refusal of a caller is one. `message` is for the caller, `cause` only for the log. */
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

/** Converts whatever was thrown to a `GatewayError`: one is returned unchanged, anything else becomes `internal` with it as the cause. */
export function toGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  return new GatewayError('internal', 'The gateway failed.', { cause: thrown });
}
