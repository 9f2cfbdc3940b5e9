import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';

/**
 * Signatures of reasoning: they belong to exactly the part that they came with. Source: docs/providers.md "The Gemini
 * protocol"; docs/interfaces/README.md "Translation"; case RE-22.
 */

/** The kind of a signature that came with a call or a text. */
export const partSignatureKind = 'gemini.thought_signature';
/** The kind of a signature that came with reasoning. */
export const reasoningSignatureKind = 'gemini.signed_thought';
/** Disables the check for a call without a signature, for example one of another model. */
export const skipCheck = 'skip_thought_signature_validator';

/** Returns true if the upstream `provider` can read a blob; one without a provider came from a client that had received it. */
export function canRead({ kind, provider }: Opaque, reader: string | undefined): boolean {
  if (kind !== partSignatureKind && kind !== reasoningSignatureKind) return false;
  return provider === '' || provider === reader;
}
