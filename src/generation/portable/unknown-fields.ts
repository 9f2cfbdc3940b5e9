import { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';

/**
 * Members of one protocol that can't be left out, because the answer, or what the provider does, would be different. Source: docs/interfaces/README.md "Refused, listed or
 * dropped".
 */
const refusedMembers: Readonly<Partial<Record<Protocol, Readonly<Record<string, string>>>>> = {
  [Protocol.CHAT]: { modalities: 'answers that are not text', web_search_options: 'web searches' },
  [Protocol.MESSAGES]: { mcp_servers: 'tools of MCP servers' },
};
/**
 * Members that are only hints: nothing is lost if they are left out. Source: docs/interfaces/README.md "Refused, listed or
 * dropped".
 */
const hintMembers: ReadonlySet<string> = new Set([
  'inference_geo',
  'prompt_cache_options',
  'prompt_cache_retention',
  'safety_identifier',
]);

/** The citations of an earlier answer, which Chat clients send back. Providers give them to readers, not to the model. */
const citations = /^messages\.\d+\.annotations$/;

/**
 * Returns the members of a client's body that only an upstream of the same protocol can read, without mere hints; none if the request has no body in a client's protocol (`source` undefined). Throws
 * `unsupported_parameter` for a member that changes the answer.
 */
export function unknownFields(source: SourceRequest | undefined): string[] {
  if (source === undefined) return [];
  const refused = refusedMembers[source.protocol] ?? {};
  for (const field of source.unknownFields) {
    const what = Object.hasOwn(refused, field) ? refused[field] : undefined;
    if (what === undefined) continue;
    throw new GatewayError('unsupported_parameter', `The model’s provider does not support ${what}.`, { param: field });
  }
  return source.unknownFields.filter(field => !hintMembers.has(field) && !citations.test(field));
}
