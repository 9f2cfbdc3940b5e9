import assert from 'node:assert/strict';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { toResponseId } from '../../generation/response-ids.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import { toResponseFacts } from './render-events.ts';
import { renderResource } from './resource.ts';
import { toOutcome } from '../../generation/response-fold.ts';

/** Renders a whole answer: the same response object as in the last event of a stream. */
export function renderWhole(events: readonly GenerationEvent[], decoded: DecodedRequest): JsonObject {
  const [first] = events;
  assert(first?.event.case === 'started', 'the generation never started');
  const { requestId, model, createdAtMs } = first.event.value;
  const outcome = toOutcome(toResponseId(requestId), events);
  assert(outcome.status !== 'in_progress', 'the generation ended without completed');
  return renderResource(toResponseFacts(decoded, { requestId, model, createdAtMs: Number(createdAtMs) }), outcome);
}
