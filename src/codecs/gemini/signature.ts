import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';

/**
 * Gemini's signatures of reasoning: each must be sent back on exactly the part that it came with. Source: docs/providers.md "The Gemini
 * protocol"; docs/interfaces/README.md "Translation"; translation case RE-22.
 */

/** The kind of a signature that came with a call or a text. */
export const partSignatureKind = 'gemini.thought_signature';
/** The kind of a signature that came with reasoning. */
export const reasoningSignatureKind = 'gemini.signed_thought';
/** A signature that disables Gemini's check, for a call that has none of its own, for example because another model made it. */
export const skipCheck = 'skip_thought_signature_validator';

/** The texts that clients send in place of a signature that they do not have; only Gemini providers know it. Source: ai.google.dev "Thought signatures". */
export const placeholders: ReadonlySet<string> = new Set([skipCheck, 'context_engineering_is_the_way_to_go']);

/** Returns whether the provider `reader` can read a blob. A blob without a provider is accepted: a client that had received it from Gemini sent it. */
export function canRead({ kind, provider }: Opaque, reader: string | undefined): boolean {
  if (kind !== partSignatureKind && kind !== reasoningSignatureKind) return false;
  return provider === '' || provider === reader;
}
