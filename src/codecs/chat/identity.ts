import type { Started } from '../../gen/tollgate/v1/event_pb.ts';
import { hashOf } from '../../generation/call-id.ts';

/** What every chunk of an answer, and the whole answer, say alike. */
export interface ChatIdentity {
  readonly id: string;
  /** In seconds. */
  readonly created: number;
  readonly model: string;
  readonly fingerprint: string;
}

/** The identity of an answer. */
export function identityOf(started: Started): ChatIdentity {
  return {
    id: `chatcmpl-${started.requestId.replace(/^req_/, '')}`,
    created: Math.floor(Number(started.createdAtMs) / 1000),
    model: started.model,
    // A string that changes when the backend's configuration does (service.md): if the upstream gives none, only the model is known.
    fingerprint: started.systemFingerprint === '' ? `fp_${hashOf(started.model)}` : started.systemFingerprint,
  };
}
