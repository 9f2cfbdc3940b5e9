import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/**
 * A step of an answer on its way to the client: passes on what is ready, in order and at once, to the next step. An
 * array can be the last step.
 */
export interface EventStep {
  push(event: GenerationEvent): unknown;
}
