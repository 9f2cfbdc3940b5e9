import { Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';

/**
 * Returns the request without the stop sequences, which the gateway applies itself: providers would also apply them to a prompt that the answer repeats (`echo`).
 */
export function withoutStopSequences(request: GenerateRequest, isRemote: boolean): GenerateRequest {
  return isRemote && request.endpoint === Endpoint.COMPLETIONS ? { ...request, stop: [] } : request;
}
