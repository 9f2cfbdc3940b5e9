import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { envelopeKind, envelopeOf } from '../../generation/envelope.ts';
import { opaqueOf } from '../content.ts';

/** Blobs in `encrypted_content`. Source: decisions §4, wire.md C3. */

/** The kind of encrypted thoughts of a Responses upstream. */
export const encryptedKind = 'openai.encrypted';
/** The kind of the id that encrypted thoughts are bound to: their upstream refuses them under another one. */
export const itemIdKind = 'openai.item_id';
/** The kind of a conversation that a Responses upstream compacted. */
export const compactionKind = 'openai.compaction';

const envelopeStart = 'tg1.';

/** A blob that a client sent: an envelope of this gateway, or somebody's of the given kind. */
export function blobOf(data: string, foreignKind: string): Opaque {
  return data.startsWith(envelopeStart) ? envelopeOf(data) : opaqueOf(foreignKind, data);
}

/** The one blob that a client may see; undefined where there is none. What upstreams want back is never shown as it is. */
export function envelopeIn(blobs: readonly Opaque[]): string | undefined {
  return blobs.find(({ kind }) => kind === envelopeKind)?.data;
}
