import type { Started } from '../../gen/tollgate/v1/event_pb.ts';

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
    fingerprint: started.systemFingerprint === '' ? fingerprintOf(started.model) : started.systemFingerprint,
  };
}

/**
 * `system_fingerprint` is a string that changes when the backend's configuration does (service.md). Where the upstream gives none, all that is known of
 * the backend is the model: FNV-1a over its id, 32 bits.
 */
function fingerprintOf(model: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < model.length; at += 1) hash = Math.imul(hash ^ model.charCodeAt(at), 0x01000193);
  return `fp_${(hash >>> 0).toString(16).padStart(8, '0')}`;
}
