import { UpstreamFailure } from '../generation/upstream.ts';
import { type BodyReader, HttpAttempt, type OutgoingRequest, type ReadBatch } from './http-attempt.ts';
import { HttpTarget, type HttpTargetOptions } from './http-target.ts';

/** Collects the bytes of an answer. */
class BytesReader implements BodyReader<Buffer> {
  readonly #bytesMax: number;
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  completed = false;
  readonly finished = false;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  begin(): void {}

  push(chunk: Buffer): ReadBatch<Buffer> {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= this.#bytesMax) return { events: [] };
    return this.end(new UpstreamFailure('malformed', { cause: new Error('the answer is too large') }));
  }

  end(failure?: Error): ReadBatch<Buffer> {
    if (failure !== undefined) return { events: [], failure };
    this.completed = true;
    return { events: [Buffer.concat(this.#parts)] };
  }
}

/**
 * Fetches an answer that is not streamed. Throws `UpstreamFailure` (`malformed` if the answer is larger than `bytesMax`); if the signal is aborted, its reason.
 */
export async function fetchBody(
  target: HttpTarget,
  request: Omit<OutgoingRequest, 'whole'>,
  bytesMax: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  signal?.throwIfAborted();
  const body = Promise.withResolvers<Buffer>();
  const attempt = new HttpAttempt(target, { ...request, whole: true }, new BytesReader(bytesMax), {
    events: ([bytes]) => {
      if (bytes !== undefined) body.resolve(bytes);
    },
    end: failure => {
      if (failure !== undefined) body.reject(failure);
    },
  });
  const abort = (): void => {
    attempt.cancel();
    body.reject(signal?.reason);
  };
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await body.promise;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** A single request to a server. */
export interface Question {
  /** The path and query. */
  readonly path: string;
  readonly accept: string;
  readonly bytesMax: number;
  /** The body, which is sent as JSON; absent: the request is a GET. */
  readonly json?: object;
}

/** Makes a single request to a server, and closes its connections afterwards. The bodies of errors are not read. Throws like `fetchBody`. */
export async function fetchOnce(
  options: Omit<HttpTargetOptions, 'headers'>,
  { path, accept, bytesMax, json }: Question,
  signal?: AbortSignal,
): Promise<Buffer> {
  const target = new HttpTarget({ ...options, headers: {} }, 'bearer');
  const type: Record<string, string> = json === undefined ? {} : { 'content-type': 'application/json' };
  const headers = target.headers({ accept, 'user-agent': 'tollgate' }, type);
  const codec = { parseError: () => ({}) };
  const body = json === undefined ? null : Buffer.from(JSON.stringify(json));
  try {
    const request = { keyUser: target, model: '', path: target.path(path), headers, body, codec };
    return await fetchBody(target, request, bytesMax, signal);
  } finally {
    // Destroyed, not closed, so that a cancelled request does not wait for a connection that is still being made.
    await target.destroy();
  }
}
