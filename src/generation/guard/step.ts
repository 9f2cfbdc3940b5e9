import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** A step of an answer on its way to the client: hands on what is ready, in order and at once, to the step that it was made with. An array is a last step. */
export interface EventStep {
  push(event: GenerationEvent): unknown;
}
