import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason, type Started } from '../../gen/tollgate/v1/event_pb.ts';
import { requestIdEnd } from '../../lib/ids.ts';
import type { JsonObject } from '../codec.ts';

/** Returns the members that every chunk of an answer, and the whole answer, have in common. */
export function renderIdentity(started: Started): JsonObject {
  return {
    id: `cmpl-${requestIdEnd(started.requestId)}`,
    object: 'text_completion',
    created: Math.floor(Number(started.createdAtMs) / 1000),
    model: started.model,
    ...(started.systemFingerprint === '' ? {} : { system_fingerprint: started.systemFingerprint }),
  };
}

/** Returns the finish reason of a choice; an unknown reason of a Completions upstream is passed through. */
export function renderFinishReason({ reason, native, protocol }: Finished): string {
  switch (reason) {
    case FinishReason.LENGTH:
    case FinishReason.CONTEXT_WINDOW:
      return 'length';
    case FinishReason.CONTENT_FILTER:
    case FinishReason.REFUSAL:
      return 'content_filter';
    case FinishReason.OTHER:
      return protocol === Protocol.COMPLETIONS && native !== '' ? native : 'stop';
    default:
      return 'stop';
  }
}
