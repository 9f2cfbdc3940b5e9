import type { Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import { envelopeKind, makeEnvelope } from '../../generation/envelope.ts';
import { makeOpaque } from '../content.ts';

/** Reads and writes blobs in `encrypted_content`. Source: docs/interfaces/README.md "Reasoning and signatures", "Translation". */

/** The kind of a Responses upstream's encrypted reasoning. */
export const encryptedKind = 'openai.encrypted';
/** The kind of the upstream's item id. Encrypted reasoning is bound to it: the upstream refuses the reasoning under another id. */
export const itemIdKind = 'openai.item_id';
/** The kind of a conversation that a Responses upstream compacted. */
export const compactionKind = 'openai.compaction';

const envelopeStart = 'tg1.';

/** Returns the blob that a client sent: an envelope of this gateway, or a blob of `foreignKind` of a provider. */
export function readBlob(data: string, foreignKind: string): Opaque {
  return data.startsWith(envelopeStart) ? makeEnvelope(data) : makeOpaque(foreignKind, data);
}

/**
 * Returns the blob that a client may see, the gateway's encrypted envelope; undefined if there is none. Clients never get the blobs of
 * upstreams themselves.
 */
export function envelopeIn(blobs: readonly Opaque[]): string | undefined {
  return blobs.find(({ kind }) => kind === envelopeKind)?.data;
}
