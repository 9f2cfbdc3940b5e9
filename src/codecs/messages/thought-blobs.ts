import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json } from '../codec.ts';
import { opaqueOf } from '../content.ts';
import { listIn, textIn } from '../json.ts';

/**
 * Blobs of thoughts in the one text that a `thinking` block has for them. A signature of the protocol's own stands there byte for byte; blobs of other
 * protocols stand there in an envelope that keeps their provenance. Source: wire.md C1, C3; case RE-04.
 */

/** The kind of a signature that stands as it is. */
export const signatureKind = 'anthropic.signature';
/** The kind of hidden thoughts, which are a block of their own. */
export const redactedKind = 'anthropic.redacted';

const envelopeStart = 'tgb1.';

/** The `signature` of a thinking block; '' where there is nothing to give back. */
export function signatureOf(blobs: readonly Opaque[]): string {
  const [first] = blobs;
  if (first === undefined) return '';
  if (blobs.length === 1 && first.kind === signatureKind) return first.data;
  const entries = blobs.map(({ provider, model, kind, data }) => [provider, model, kind, data]);
  return envelopeStart + Buffer.from(JSON.stringify(entries), 'utf8').toString('base64url');
}

/** The blobs of a `signature`. One of the protocol's own is said to come from `provider` ('' where that is not known). */
export function blobsOf(signature: string, provider: string): Opaque[] {
  if (signature === '') return [];
  return unwrapped(signature) ?? [opaqueOf(signatureKind, signature, provider)];
}

function unwrapped(signature: string): Opaque[] | undefined {
  if (!signature.startsWith(envelopeStart)) return undefined;
  try {
    const text = Buffer.from(signature.slice(envelopeStart.length), 'base64url').toString('utf8');
    const entries = listIn(JSON.parse(text) as Json);
    return entries.map(entry => {
      const [provider, model, kind, data] = listIn(entry).map(textIn);
      return opaqueOf(kind ?? '', data ?? '', provider, model);
    });
  } catch {
    // Not of ours after all: its maker will judge it.
    return undefined;
  }
}

/** Whether a signature is an envelope around blobs of other protocols. */
export function isForeign(signature: string): boolean {
  return unwrapped(signature) !== undefined;
}
