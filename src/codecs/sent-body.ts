import type { SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import type { JsonObject } from './codec.ts';

/** Returns the body of a client's own request, which is the caller's to change. */
export function sentBody({ body }: SourceRequest): JsonObject {
  // The decoder has checked that it is an object.
  return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')) as JsonObject;
}
