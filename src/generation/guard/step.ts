import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/**
 * A step of an answer on its way to the client: passes ready events on to the next step, in order and at once. An array can be the last
 * step.
 */
export interface EventStep {
  push(event: GenerationEvent): unknown;
}
