import { createHash } from 'node:crypto';

/** How many bytes at each end of a long body are hashed. */
const sampledBytes = 262_144;

/**
 * Returns a string that is the same for a repeated request: a hash of its body if that was kept, else of its fields. It takes milliseconds, so it is called only after failures.
 */
export function markRequest(request: object): string {
  const hash = createHash('sha256');
  const body = 'source' in request ? (request.source as { readonly body?: Uint8Array } | undefined)?.body : undefined;
  if (body === undefined || body.length === 0)
    return hash.update(JSON.stringify(request, replaceValue)).digest('base64');
  hash.update(`${body.length} `).update(body.subarray(0, sampledBytes)).update(body.subarray(-sampledBytes));
  return hash.digest('base64');
}

/** Converts values that JSON can't have (bigint) or would write as a long list of numbers (bytes). */
function replaceValue(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Uint8Array ? createHash('sha256').update(value).digest('base64') : value;
}
