import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';

/** Signatures of thoughts: they belong to exactly the part that they came with. Source: wire.md B4, C3; case RE-22. */

/** The kind of a signature that came with a call or a text. */
export const signatureKind = 'gemini.thought_signature';
/** The kind of a signature that came with a thought itself. */
export const thoughtKind = 'gemini.signed_thought';
/** What switches the check off for a call whose signature nobody has: a call of another model, for instance. */
export const skipCheck = 'skip_thought_signature_validator';

/** Whether an upstream called `provider` can read a blob; one without a maker came from a client that was given it. */
export function canRead({ kind, provider }: Opaque, reader: string | undefined): boolean {
  if (kind !== signatureKind && kind !== thoughtKind) return false;
  return provider === '' || provider === reader;
}
