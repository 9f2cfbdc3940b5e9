import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { AuthenticateResponse } from '../gen/tollgate/v1/credential_pb.ts';
import { clientAddressHeader, fingerprintHeader, idempotencyKeyHeader } from '../lib/call-headers.ts';
import { requestIdHeader } from '../lib/ids.ts';
import type { HeaderReader } from '../lib/push.ts';
import type { Runtime } from '../lib/runtime.ts';
import { readClientRequestId, readTraceparent, RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { hashBody } from './body-hash.ts';
import type { EdgeOptions } from './options.ts';

/** Headers of an answer, lower case. */
export type AnswerHeaders = Record<string, string | number>;

/** The shape of a request's errors: Anthropic's on its paths; on the account's paths wrong fields have the validation envelope. */
export type ErrorShape = 'openai' | 'messages' | 'account';

/**
 * Collects the facts of one request, from its first byte to its log line. Passed to the core as the headers; a core in the same process
 * adds its own facts.
 */
export class Call extends RequestTelemetry implements HeaderReader {
  /** The public request id; `x-request-id` of the answer, whatever it is. */
  readonly id: string;
  readonly errorShape: ErrorShape;
  readonly #cors: AnswerHeaders | undefined;
  readonly #runtime: Runtime;
  readonly #startedAtMs: number;
  /** The key as sent; empty until it was read. It is passed to the core only. */
  #authorization = '';
  #idempotencyKey: string | null = null;
  #fingerprint: string | null = null;
  /** The caller; absent until the core has identified it. */
  credential: AuthenticateResponse | undefined;
  /** The network address of the client; only of calls that can change an account. */
  address: string | undefined;
  /** True if the answer has the rate limit headers of the key (generation and images). */
  sendsLimitHeaders = false;

  /** `cors`: the headers of every answer to the calling page; absent: none. */
  constructor(runtime: Runtime, id: string, errorShape: ErrorShape = 'openai', cors?: AnswerHeaders) {
    super();
    this.#runtime = runtime;
    this.#startedAtMs = runtime.monotonicMs();
    this.id = id;
    this.errorShape = errorShape;
    this.#cors = cors;
  }

  /** Reads the client's own request id and trace, and begins the gateway's trace if traces are switched on. */
  follow(headers: IncomingHttpHeaders, { startTrace }: Pick<EdgeOptions, 'startTrace'>): this {
    this.clientRequestId = readClientRequestId(headers['x-request-id']);
    this.traceparent = readTraceparent(headers['traceparent']);
    this.trace = startTrace?.(this);
    return this;
  }

  /** The headers that every answer of this request has, as an object that the caller may add to. */
  get headers(): AnswerHeaders {
    const headers: AnswerHeaders = {
      'x-request-id': this.id,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    };
    if (this.errorShape === 'messages') headers['request-id'] = this.id;
    return this.#cors === undefined ? headers : Object.assign(headers, this.#cors);
  }

  /** True if the answer may be an earlier request's, because this one has an `Idempotency-Key`. */
  get isRepeatable(): boolean {
    return this.#idempotencyKey !== null;
  }

  /** Stores the key for calls to the core. */
  useKey(key: string): void {
    this.#authorization = `Bearer ${key}`;
  }

  /**
   * Stores the request's `Idempotency-Key`, if any, and the hash by which its path and body are compared. Source: docs/accounting.md "Prices
   * and rounding".
   */
  setFingerprint(request: FastifyRequest, { raw, fingerprint }: ComparedBody): void {
    const path = readComparedPath(request);
    if (path === undefined) return;
    this.#idempotencyKey = String(request.raw.headers[idempotencyKeyHeader]);
    this.#fingerprint = fingerprint ?? hashBody(path, raw);
  }

  get(name: string): string | null {
    switch (name) {
      case 'authorization':
        return this.#authorization;
      case requestIdHeader:
        return this.id;
      case idempotencyKeyHeader:
        return this.#idempotencyKey;
      case fingerprintHeader:
        return this.#fingerprint;
      case clientAddressHeader:
        return this.address ?? null;
      default:
        return null;
    }
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  /** Time since the request arrived, by the monotonic clock. */
  elapsedMs(): number {
    return this.#runtime.monotonicMs() - this.#startedAtMs;
  }
}

/** A body by which repeats are compared. */
export interface ComparedBody {
  /** The raw bytes, or the equivalent of a form. */
  readonly raw: Uint8Array;
  /** The hash of path and body, if it was made elsewhere; absent: it is made here. */
  readonly fingerprint?: string | undefined;
}

/** Returns the path by which a request's repeats are compared; undefined if it has no `Idempotency-Key`. */
export function readComparedPath(request: FastifyRequest): string | undefined {
  const key = request.raw.headers[idempotencyKeyHeader];
  return key === undefined || key === '' ? undefined : (request.routeOptions.url ?? '');
}

/** Sets the headers of the answer to the earlier request `repeatedId`, the id under which the account finds the charge. */
export function setRepeated(headers: AnswerHeaders, repeatedId: string): void {
  headers['x-request-id'] = repeatedId;
  if ('request-id' in headers) headers['request-id'] = repeatedId;
  headers['idempotent-replayed'] = 'true';
}

declare module 'fastify' {
  interface FastifyRequest {
    call: Call;
  }
}
