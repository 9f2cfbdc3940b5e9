import type { IncomingHttpHeaders } from 'node:http';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Attribution } from '../gen/tollgate/v1/request_pb.ts';
import { findTagFault } from '../generation/tags.ts';

/** Reads the tags and end user in a request's headers. Source: docs/interfaces/account.md "Tags and end users". */

const tagsHeader = 'x-tollgate-tags';
const endUserHeader = 'x-tollgate-end-user';

/** Adds the tags and end user of the headers to a request, if there are any. Throws `invalid_request` for invalid tags. */
export function attribute(request: { attribution?: Attribution | undefined }, headers: IncomingHttpHeaders): void {
  const attribution = readAttribution(headers);
  if (attribution !== undefined) request.attribution = attribution;
}

/** Returns the tags and end user of the headers; undefined if there are none. Throws `invalid_request` for invalid tags. */
export function readAttribution(headers: IncomingHttpHeaders): Attribution | undefined {
  const tags = headers[tagsHeader];
  const endUser = headers[endUserHeader];
  if (tags === undefined && endUser === undefined) return undefined;
  return {
    $typeName: 'tollgate.v1.Attribution',
    tags: tags === undefined ? {} : readTags(String(tags)),
    ...(endUser === undefined || endUser === '' ? {} : { endUser: readUtf8(String(endUser)) }),
  };
}

function readTags(text: string): Record<string, string> {
  const tags: Record<string, string> = {};
  for (const part of readUtf8(text).split(',')) {
    if (part.trim() === '') continue;
    const at = part.indexOf('=');
    const name = part.slice(0, at).trim();
    if (at < 0) throw refuse(`"${part.trim().slice(0, 64)}" has no value`);
    if (Object.hasOwn(tags, name)) throw refuse(`${name} is sent twice`);
    tags[name] = part.slice(at + 1).trim();
  }
  const fault = findTagFault(tags);
  if (fault !== undefined) throw refuse(fault);
  return tags;
}

/** Decodes a header value as UTF-8. Node.js reads headers as one character per byte. */
function readUtf8(text: string): string {
  return Buffer.from(text, 'latin1').toString('utf8');
}

function refuse(message: string): GatewayError {
  return new GatewayError('invalid_request', `Header ${tagsHeader}: ${message}.`, {
    param: tagsHeader,
    tip: `Send up to 8 tags, as ${tagsHeader}: team=search,env=prod.`,
  });
}
