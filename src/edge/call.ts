import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { AuthenticateResponse } from '../gen/tollgate/v1/credential_pb.ts';
import { clientAddressHeader, fingerprintHeader, idempotencyKeyHeader } from '../lib/call-headers.ts';
import { requestIdHeader } from '../lib/ids.ts';
import type { HeaderReader } from '../lib/push.ts';
import type { Runtime } from '../lib/runtime.ts';
import { readClientRequestId, readTraceparent, RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { hashBody } from './body-hash.ts';
import { whenAnswered } from './client-watch.ts';
import { geminiTarget } from './gemini/target.ts';
import type { EdgeOptions } from './options.ts';

/** The headers of an answer, by lower-case name. */
export type AnswerHeaders = Record<string, string | number>;

/** The shape of a request's errors: OpenAI's, Anthropic's and Google's for their paths and clients, or that of the account paths, where errors about wrong fields have the validation envelope. */
export type ErrorShape = 'openai' | 'messages' | 'google' | 'account';

/**
 * Collects the facts of one request, from its first byte to its log line. It is passed to the core as the headers of calls; a core in the
 * same process adds facts to it.
 */
export class Call extends RequestTelemetry implements HeaderReader {
  /** The public request id, which is the `x-request-id` of every answer. */
  readonly id: string;
  readonly errorShape: ErrorShape;
  readonly #cors: AnswerHeaders | undefined;
  readonly #runtime: Runtime;
  readonly #startedAtMs: number;
  /** The key as the client sent it; '' until it was read. It is passed only to the core. */
  #authorization = '';
  #idempotencyKey: string | null = null;
  #fingerprint: string | null = null;
  #repeats: string | undefined;
  /** The caller; absent until the core has identified it. */
  credential: AuthenticateResponse | undefined;
  /** The network address of the client; set only for calls that can change an account. */
  address: string | undefined;
  /** True if the answer has the rate limit headers of the key (paths that generate text or images). */
  sendsLimitHeaders = false;
  /** The model as the client named it; absent until the body was read. Only for looking up the listed id of a refused request. */
  requestedModel: string | undefined;
  /** Whether a core in this process has reserved memory for the contents of the answer. */
  isCounted = false;
  /** The holder of memory for the body; absent: nothing does. */
  body: { readonly taken: number } | undefined;
  /** The response that answers the request; absent if it is answered in another way. */
  response: ServerResponse | undefined;

  /** `cors`: the CORS headers of every answer; absent if the request does not come from an allowed page. */
  constructor(runtime: Runtime, id: string, errorShape: ErrorShape = 'openai', cors?: AnswerHeaders) {
    super();
    this.#runtime = runtime;
    this.#startedAtMs = runtime.monotonicMs();
    this.id = id;
    this.errorShape = errorShape;
    this.#cors = cors;
  }

  /** Reads the client's request id and trace, and begins the gateway's trace if tracing is on. */
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
    if (this.#repeats !== undefined) setRepeated(headers, this.#repeats);
    return this.#cors === undefined ? headers : Object.assign(headers, this.#cors);
  }

  get bodyMemory(): number {
    return this.body?.taken ?? 0;
  }

  /** True if this request has an `Idempotency-Key`, so that its answer may be that of an earlier request. */
  get isRepeatable(): boolean {
    return this.#idempotencyKey !== null;
  }

  /** The id of the earlier request whose stored answer is sent again, for a path that generates nothing; undefined: none is. */
  get repeats(): string | undefined {
    return this.#repeats;
  }

  /** Sets the id of the request that was answered: this one, or an earlier one with the same `Idempotency-Key`. */
  setAnswered(requestId: string): void {
    if (requestId !== '' && requestId !== this.id) this.#repeats = requestId;
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

  onOver(done: () => void): boolean {
    if (this.response === undefined) return false;
    whenAnswered(this.response, done, this.#runtime);
    this.isCounted = true;
    return true;
  }

  /** Returns the milliseconds since the request arrived, by the monotonic clock. */
  elapsedMs(): number {
    return this.#runtime.monotonicMs() - this.#startedAtMs;
  }
}

/** A body that is compared with those of repeated requests. */
export interface ComparedBody {
  /** The raw bytes; for a form, those of `comparedBytes`. */
  readonly raw: Uint8Array;
  /** The hash of path and body, if another thread has computed it. */
  readonly fingerprint?: string | undefined;
}

/** Returns the path that is compared with those of repeated requests; undefined if the request has no `Idempotency-Key`. */
export function readComparedPath(request: FastifyRequest): string | undefined {
  const key = request.raw.headers[idempotencyKeyHeader];
  if (key === undefined || key === '') return undefined;
  // The paths of Gemini's interface contain the model.
  const own = geminiTarget(request.raw)?.path;
  if (own !== undefined) return own;
  const names = Object.values(request.params as Readonly<Record<string, string>>);
  return [request.routeOptions.url ?? '', ...names].join(' ');
}

/** Sets the headers of an answer that repeats that of the request `repeatedId`, under whose id the account finds the charge. */
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
