import { type DescMethod, isMessage } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Extra } from '../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, GenerateRequestSchema, type SourceRequest } from '../gen/tollgate/v1/request_pb.ts';
import { CreateResponseRequestSchema } from '../gen/tollgate/v1/response_pb.ts';
import { edgeHeader } from '../lib/call-headers.ts';

/** The content of a decoded raw body. */
export interface DecodedSource {
  readonly request: GenerateRequest;
  /** Fields that only the Responses interface has. */
  readonly response?: {
    readonly previousResponseId: string | undefined;
    readonly conversationId: string | undefined;
    readonly store: boolean;
    readonly background: boolean;
  };
}

/** Decodes a raw body. `isCountOrCompaction`: the input is only counted or compacted, so some members may be missing. Rejects with the client's error if the body is invalid. */
export type DecodeSource = (source: SourceRequest, isCountOrCompaction: boolean) => Promise<DecodedSource>;

/** The methods whose requests must be complete, because a model answers them. */
const answered: readonly string[] = ['Generate', 'CreateResponse'];

/**
 * Returns the request of a call with fields that are certain to be those that an upstream gets, because these are checked and priced. If an edge sends a raw body, the fields are decoded from it again; only the delivery and the strictness, which the body does not contain, are kept from the request. The raw body of any other caller is removed. Rejects with the client's error if the request is invalid.
 */
export async function trustedRequest<Message>(
  request: Message,
  { method, requestHeader }: { readonly method: DescMethod; readonly requestHeader: Headers },
  decode: DecodeSource | undefined,
): Promise<Message> {
  // The request of a generation is the message itself, or is inside other requests.
  for (let each: unknown = request; isMessage(each); each = 'request' in each ? each.request : undefined) {
    if (isMessage(each, GenerateRequestSchema)) {
      const { source } = each;
      if (source !== undefined && decode !== undefined && requestHeader.has(edgeHeader)) {
        replaceBySource(request, { requested: each, decoded: await decode(source, !answered.includes(method.name)) });
      } else {
        delete each.source;
        checkExtras(each);
      }
    }
  }
  return request;
}

function replaceBySource(
  message: unknown,
  { requested, decoded }: { readonly requested: GenerateRequest; readonly decoded: DecodedSource },
): void {
  const { delivery, strict, source } = requested;
  for (const field of Object.keys(requested) as (keyof GenerateRequest)[]) delete requested[field];
  Object.assign(requested, decoded.request, { delivery, strict });
  // All headers are kept; which of them a provider gets is decided later.
  if (requested.source !== undefined) requested.source.headers = source?.headers ?? {};
  if (decoded.response !== undefined && isMessage(message, CreateResponseRequestSchema)) {
    const { previousResponseId, conversationId, store, background } = decoded.response;
    Object.assign(message, { store, background });
    if (previousResponseId === undefined) delete message.previousResponseId;
    else message.previousResponseId = previousResponseId;
    if (conversationId === undefined) delete message.conversationId;
    else message.conversationId = conversationId;
  }
}

/** Members that a model reads. They must be sent as protobuf fields, because only these are checked and counted. */
const contractMembers: ReadonlySet<string> = new Set([
  'type',
  'role',
  'content',
  'text',
  'refusal',
  'image_url',
  'input_audio',
  'file',
  'file_data',
  'file_id',
  'file_url',
  'source',
  'tool_calls',
  'function',
  'custom',
  'arguments',
  'input',
  'output',
  'input_schema',
  'parameters',
  'thinking',
  'data',
  'encrypted_content',
  'summary',
]);

/** Throws `validation_error` if `extra` has members that would replace fields or add to them. */
function checkExtras(request: GenerateRequest): void {
  const waiting: unknown[] = [request.items, request.tools];
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    if (typeof each !== 'object' || each === null || each instanceof Uint8Array) continue;
    if ('$typeName' in each && each.$typeName === 'tollgate.v1.Extra') checkExtra(each as Extra);
    else for (const member of Object.values(each)) if (typeof member === 'object') waiting.push(member ?? '');
  }
}

function checkExtra({ json }: Extra): void {
  if (json === '') return;
  const refuse = (problem: string): never => {
    throw new GatewayError('validation_error', `extra.json: ${problem}`, { param: 'extra' });
  };
  let members: unknown;
  try {
    members = JSON.parse(json);
  } catch {
    return refuse('is not JSON.');
  }
  if (typeof members !== 'object' || members === null || Array.isArray(members)) return refuse('must be an object.');
  const name = Object.keys(members).find(each => contractMembers.has(each));
  if (name !== undefined) refuse(`${name} must be sent in its own field, not in extra.`);
}
