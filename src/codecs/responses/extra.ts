import { type Extra, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** The members that Responses alone knows; none where there are none or they belong to another protocol. */
export function extraMembers(extra: Extra | undefined): JsonObject {
  if (extra === undefined || extra.protocol !== Protocol.RESPONSES || extra.json === '') return {};
  return JSON.parse(extra.json) as JsonObject;
}
