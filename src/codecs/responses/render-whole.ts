import assert from 'node:assert/strict';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { responseIdOf } from '../../generation/response-ids.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import { factsOf } from './render-events.ts';
import { renderResource } from './resource.ts';
import { outcomeOf } from '../../generation/response-fold.ts';

/** The whole answer: the resource with which the stream of the same events ends. */
export function renderWhole(events: readonly GenerationEvent[], decoded: DecodedRequest): JsonObject {
  const [first] = events;
  assert(first?.event.case === 'started', 'the generation never started');
  const { requestId, model, createdAtMs } = first.event.value;
  const outcome = outcomeOf(responseIdOf(requestId), events);
  assert(outcome.status !== 'in_progress', 'the generation ended without completed');
  return renderResource(factsOf(decoded, { requestId, model, createdAtMs: Number(createdAtMs) }), outcome);
}
