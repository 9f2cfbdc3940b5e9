import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { opaqueOf } from '../content.ts';
import { type EnvelopedItem, type EnvelopedThoughts, unwrapThoughts, wrapThoughts } from '../thought-envelope.ts';

/**
 * Blobs of thoughts in the one text that a `thinking` block has for them. A signature of the protocol's own stands there byte for byte; blobs of other
 * protocols stand there in an envelope that keeps their provenance and their thoughts. Source: wire.md C1, C3; case RE-04.
 */

/** The kind of a signature that stands as it is. */
export const signatureKind = 'anthropic.signature';
/** The kind of hidden thoughts, which are a block of their own. */
export const redactedKind = 'anthropic.redacted';

const noItem: EnvelopedItem = { parts: [], extra: undefined };

/** The `signature` of a thinking block with these thoughts; '' where there is nothing to give back. */
export function signatureOf(blobs: readonly Opaque[], item: EnvelopedItem = noItem): string {
  const [first] = blobs;
  if (first === undefined) return '';
  if (blobs.length === 1 && first.kind === signatureKind) return first.data;
  return wrapThoughts(blobs, item);
}

/** The blobs of a `signature`. One of the protocol's own is said to come from `provider` ('' where that is not known). */
export function blobsOf(signature: string, provider: string): Opaque[] {
  if (signature === '') return [];
  return unwrapThoughts(signature)?.blobs ?? [opaqueOf(signatureKind, signature, provider)];
}

/** What a `signature` of other protocols holds; undefined if it is one of this protocol. */
export function envelopeIn(signature: string): EnvelopedThoughts | undefined {
  return unwrapThoughts(signature);
}

/** Whether a signature is an envelope around blobs of other protocols. */
export function isForeign(signature: string): boolean {
  return unwrapThoughts(signature) !== undefined;
}
