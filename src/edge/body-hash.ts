import { createHash } from 'node:crypto';

/** Returns the hash by which the path and the body of repeated requests are compared. */
export function hashBody(path: string, body: Uint8Array): string {
  return createHash('sha256').update(`${path}\0`).update(body).digest('base64url');
}
