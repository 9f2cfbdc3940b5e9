import type { GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import type { CreateResponseResponse, ResponseEnd, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';

/** One step of a response; what is absent is not said. */
export function createMessage(
  events: GenerationEvent[],
  rest: {
    readonly head?: ResponseHead | undefined;
    readonly end?: ResponseEnd | undefined;
    readonly limits?: LimitState[];
  },
): CreateResponseResponse {
  const { head, end, limits = [] } = rest;
  return {
    $typeName: 'tollgate.v1.CreateResponseResponse',
    events,
    limits,
    ...(head === undefined ? {} : { head }),
    ...(end === undefined ? {} : { end }),
  };
}
