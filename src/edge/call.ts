import { performance } from 'node:perf_hooks';
import type { AuthenticateResponse } from '../gen/tollgate/v1/credential_pb.ts';
import { requestIdHeader } from '../lib/ids.ts';

/** Headers of an answer, lower case. */
export type AnswerHeaders = Record<string, string | number>;

/** What the edge knows of one request, from its first byte to its log line. */
export class Call {
  /** The public request id; `x-request-id` of the answer, whatever it is. */
  readonly id: string;
  /** Headers that every answer of this request has. */
  readonly headers: AnswerHeaders;
  readonly #startedAt = performance.now();
  /** The key as sent; empty until it was read. It goes to the core and nowhere else. */
  #key = '';
  #rpcHeaders: Headers | undefined;
  /** Who calls; absent until the core has said so. */
  credential: AuthenticateResponse | undefined;
  /** The answer tells the key's request windows (generation and images). */
  tellsLimits = false;

  /** The shape of this request's errors: Anthropic's on its paths; on the account's paths wrong fields have the validation envelope. */
  readonly errorShape: 'openai' | 'messages' | 'account';

  constructor(id: string, headers: AnswerHeaders, errorShape: Call['errorShape'] = 'openai') {
    this.id = id;
    this.errorShape = errorShape;
    this.headers = { 'x-request-id': id, ...(errorShape === 'messages' ? { 'request-id': id } : {}), ...headers };
  }

  /** Remembers the key that calls to the core are made with. */
  useKey(key: string): void {
    this.#key = key;
    this.#rpcHeaders = undefined;
  }

  /** Metadata of calls to the core: the customer's key and the request's id. The same object for all calls; nobody changes it. */
  rpcHeaders(): Headers {
    this.#rpcHeaders ??= new Headers({ authorization: `Bearer ${this.#key}`, [requestIdHeader]: this.id });
    return this.#rpcHeaders;
  }

  /** Time since the request arrived, on a clock that never steps back. */
  elapsedMs(): number {
    return performance.now() - this.#startedAt;
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    call: Call;
  }
}
