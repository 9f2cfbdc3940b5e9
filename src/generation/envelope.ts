import type { Opaque } from '../gen/tollgate/v1/content_pb.ts';

/** The kind of a blob that a client keeps for an upstream: the upstream's data, encrypted with the server's secret. Source: docs/interfaces/README.md "Reasoning and signatures". */
export const envelopeKind = 'tollgate.envelope';
/** The kind of a blob that is the summary of a conversation: text, which clients get only in an envelope. */
export const summaryKind = 'tollgate.summary';

/** Returns an encrypted text as a blob. */
export function makeEnvelope(data: string): Opaque {
  return { $typeName: 'tollgate.v1.Opaque', provider: 'tollgate', model: '', kind: envelopeKind, data };
}
