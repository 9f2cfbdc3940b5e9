import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { makeOpaque } from '../content.ts';
import { type EnvelopedItem, type EnvelopedReasoning, unwrapReasoning, wrapReasoning } from '../reasoning-envelope.ts';

/**
 * Encodes blobs of reasoning as the `signature` of a `thinking` block, which is one string. A signature of Messages is that string, byte for
 * byte; blobs of other protocols are put into an envelope with their provider and their reasoning. Source: docs/architecture.md "The form of a
 * generation"; docs/interfaces/README.md "Translation"; translation case RE-04.
 */

/** The kind of a signature that is sent unchanged. */
export const signatureKind = 'anthropic.signature';
/** The kind of redacted reasoning, which is sent as a separate block. */
export const redactedKind = 'anthropic.redacted';

const noItem: EnvelopedItem = { parts: [], extra: undefined };

/** Returns the `signature` of a thinking block; '' if there is none to send back. */
export function toSignature(blobs: readonly Opaque[], item: EnvelopedItem = noItem): string {
  const [first] = blobs;
  if (first === undefined) return '';
  if (blobs.length === 1 && first.kind === signatureKind) return first.data;
  return wrapReasoning(blobs, item);
}

/** Returns the blobs of a `signature`. A signature of Messages is attributed to `provider` ('' if unknown). */
export function readBlobs(signature: string, provider: string): Opaque[] {
  if (signature === '') return [];
  return unwrapReasoning(signature)?.blobs ?? [makeOpaque(signatureKind, signature, provider)];
}

/** Returns the content of a `signature` that is an envelope around blobs of other protocols; undefined if it is a signature of Messages. */
export function envelopeIn(signature: string): EnvelopedReasoning | undefined {
  return unwrapReasoning(signature);
}

/** Returns whether a signature is an envelope around blobs of other protocols. */
export function isForeign(signature: string): boolean {
  return unwrapReasoning(signature) !== undefined;
}
