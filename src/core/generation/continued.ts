import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { foldEvents } from '../../generation/fold.ts';

/** The request that goes on where a paused answer stopped: the same, with what was said so far as the assistant's latest items. */
export function continued(request: GenerateRequest, said: readonly GenerationEvent[]): GenerateRequest {
  const items = foldEvents(said).choices.flatMap(choice => choice.items);
  const next: GenerateRequest = { ...request, items: [...request.items, ...items] };
  // The client's own JSON says nothing of what was answered since: the request has to be built from the model.
  delete next.source;
  return next;
}
