import { createHash } from 'node:crypto';
import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { type EnvelopedItem, type EnvelopedReasoning, unwrapReasoning, wrapReasoning } from '../reasoning-envelope.ts';

/**
 * Encodes reasoning of other protocols as a `thoughtSignature`. Clients decode it to bytes and send it back in either alphabet, with or without padding, so
 * it is base64 of a mark, a checksum and the envelope. Source: docs/interfaces/gemini.md "Signatures".
 */

const mark = Buffer.from('tollgate.1\0', 'latin1');
const checksumLength = 8;

/** Returns blobs and the reasoning that they belong to as a signature. */
export function sealReasoning(blobs: readonly Opaque[], item: EnvelopedItem): string {
  const envelope = Buffer.from(wrapReasoning(blobs, item), 'latin1');
  return Buffer.concat([mark, checksum(envelope), envelope]).toString('base64');
}

/** Returns the content of a signature that `sealReasoning` made; undefined if another program made it; 'changed' if its content is not what was sealed. */
export function openSeal(signature: string): EnvelopedReasoning | 'changed' | undefined {
  if (!isSealed(signature)) return undefined;
  const bytes = Buffer.from(signature, 'base64');
  const envelope = bytes.subarray(mark.length + checksumLength);
  if (!bytes.subarray(mark.length, mark.length + checksumLength).equals(checksum(envelope))) return 'changed';
  return unwrapReasoning(envelope.toString('latin1')) ?? 'changed';
}

/** Returns whether `sealReasoning` made a signature. */
export function isSealed(signature: string): boolean {
  // Node.js reads both alphabets.
  return Buffer.from(signature.slice(0, 16), 'base64').subarray(0, mark.length).equals(mark);
}

function checksum(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest().subarray(0, checksumLength);
}
