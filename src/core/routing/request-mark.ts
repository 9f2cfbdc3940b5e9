import { createHash } from 'node:crypto';

/** Bytes at each end of a long body that distinguish it from others. */
const sampledBytes = 262_144;

/**
 * Returns a string that identifies a request when it is repeated: from the bytes of its body if it has them, else from its fields. Takes
 * milliseconds: used after failures only.
 */
export function markRequest(request: object): string {
  const hash = createHash('sha256');
  const body = 'source' in request ? (request.source as { readonly body?: Uint8Array } | undefined)?.body : undefined;
  if (body === undefined || body.length === 0)
    return hash.update(JSON.stringify(request, replaceValue)).digest('base64');
  hash.update(`${body.length} `).update(body.subarray(0, sampledBytes)).update(body.subarray(-sampledBytes));
  return hash.digest('base64');
}

/** JSON has no large integers, and bytes would be written number by number. */
function replaceValue(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Uint8Array ? createHash('sha256').update(value).digest('base64') : value;
}
