import type { Opaque, Part } from '../../gen/tollgate/v1/content_pb.ts';
import { opaqueOf } from '../content.ts';
import { unwrapThoughts, wrapThoughts } from '../thought-envelope.ts';

/**
 * Blobs of thoughts in the one text that a `thinking` block has for them. A signature of the protocol's own stands there byte for byte; blobs of other
 * protocols stand there in an envelope that keeps their provenance and their thoughts. Source: wire.md C1, C3; case RE-04.
 */

/** The kind of a signature that stands as it is. */
export const signatureKind = 'anthropic.signature';
/** The kind of hidden thoughts, which are a block of their own. */
export const redactedKind = 'anthropic.redacted';

/** The `signature` of a thinking block with these thoughts; '' where there is nothing to give back. */
export function signatureOf(blobs: readonly Opaque[], parts: readonly Part[] = []): string {
  const [first] = blobs;
  if (first === undefined) return '';
  if (blobs.length === 1 && first.kind === signatureKind) return first.data;
  return wrapThoughts(blobs, parts);
}

/** The blobs of a `signature`. One of the protocol's own is said to come from `provider` ('' where that is not known). */
export function blobsOf(signature: string, provider: string): Opaque[] {
  if (signature === '') return [];
  return unwrapThoughts(signature)?.blobs ?? [opaqueOf(signatureKind, signature, provider)];
}

/** The thoughts that a `signature` holds itself; undefined if it holds none. */
export function partsIn(signature: string): Part[] | undefined {
  return unwrapThoughts(signature)?.parts;
}

/** Whether a signature is an envelope around blobs of other protocols. */
export function isForeign(signature: string): boolean {
  return unwrapThoughts(signature) !== undefined;
}
