import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/**
 * A step that an answer takes on its way to the client. It passes events on to the next step, in order and synchronously. An array can be the last step.
 */
export interface EventStep {
  push(event: GenerationEvent): unknown;
}
