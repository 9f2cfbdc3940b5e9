import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { envelopeKind, makeEnvelope } from '../../generation/envelope.ts';
import { makeOpaque } from '../content.ts';

/** Blobs in `encrypted_content`. Source: docs/interfaces/README.md "Reasoning and signatures", "Translation". */

/** The kind of a Responses upstream's encrypted reasoning. */
export const encryptedKind = 'openai.encrypted';
/** The kind of the id that encrypted reasoning is bound to: its upstream refuses it under another one. */
export const itemIdKind = 'openai.item_id';
/** The kind of a conversation that a Responses upstream compacted. */
export const compactionKind = 'openai.compaction';

const envelopeStart = 'tg1.';

/** A blob that a client sent: an envelope of this gateway, or someone's of the given kind. */
export function readBlob(data: string, foreignKind: string): Opaque {
  return data.startsWith(envelopeStart) ? makeEnvelope(data) : makeOpaque(foreignKind, data);
}

/**
 * Returns the one blob that a client may see; undefined if there is none. Blobs for upstreams are never shown in the
 * clear.
 */
export function envelopeIn(blobs: readonly Opaque[]): string | undefined {
  return blobs.find(({ kind }) => kind === envelopeKind)?.data;
}
