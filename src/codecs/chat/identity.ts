import type { Started } from '../../gen/tollgate/v1/event_pb.ts';
import { hashText } from '../../generation/call-id.ts';
import { requestIdEnd } from '../../lib/ids.ts';

/** The members that every chunk of an answer and the whole answer share. */
export interface ChatIdentity {
  readonly id: string;
  /** When the answer began, in seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly fingerprint: string;
}

/** Returns the identity of an answer. */
export function toIdentity(started: Started): ChatIdentity {
  return {
    id: `chatcmpl-${requestIdEnd(started.requestId)}`,
    created: Math.floor(Number(started.createdAtMs) / 1000),
    model: started.model,
    // Changes when the upstream's configuration changes (docs/interfaces/chat-completions.md "Response"). If the upstream gives none, it is derived from the model, because nothing else is known.
    fingerprint: started.systemFingerprint === '' ? `fp_${hashText(started.model)}` : started.systemFingerprint,
  };
}
