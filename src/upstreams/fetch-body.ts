import { UpstreamFailure } from '../generation/upstream.ts';
import { type BodyReader, HttpAttempt, type OutgoingRequest, type ReadBatch } from './http-attempt.ts';
import type { HttpTarget } from './http-target.ts';

/** Gathers an answer. */
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
    return this.broke(new UpstreamFailure('malformed', { cause: new Error('the answer is too large') }));
  }

  end(): ReadBatch<Buffer> {
    this.completed = true;
    return { events: [Buffer.concat(this.#parts)] };
  }

  broke(failure: Error): ReadBatch<Buffer> {
    return { events: [], failure };
  }
}

/** Fetches an answer that nobody needs before its end. Throws `UpstreamFailure`, `malformed` if it is larger than `bytesMax`, and the signal's reason. */
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
