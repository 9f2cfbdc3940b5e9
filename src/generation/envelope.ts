import type { Opaque } from '../gen/tollgate/v1/content_pb.ts';

/** The kind of a blob of this gateway: what upstreams want back, sealed with the server's secret, for a client to keep. Source: docs/interfaces/README.md "Reasoning and signatures". */
export const envelopeKind = 'tollgate.envelope';
/** The kind of a blob that is a conversation summed up by its model: text, only ever seen sealed. */
export const summaryKind = 'tollgate.summary';

/** Returns a sealed text as a blob. */
export function makeEnvelope(data: string): Opaque {
  return { $typeName: 'tollgate.v1.Opaque', provider: 'tollgate', model: '', kind: envelopeKind, data };
}
