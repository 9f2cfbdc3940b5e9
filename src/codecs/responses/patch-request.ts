import type { Item, Part } from '../../gen/tollgate/v1/content_pb.ts';
import { Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { wantsReasoning } from '../../generation/check/check-features.ts';
import type { EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { listIn, objectIn, textIn } from '../json.ts';
import { patchServiceTier } from '../service-tier.ts';
import { type SentBody, sentBody } from '../sent-body.ts';
import { InputEncoder } from './encode-input.ts';

/** The least output limit that the protocol takes; the gateway cuts where the client's is lower. */
const outputTokensMin = 16;

/** The output limit as the protocol takes it. */
export function outputLimit(tokens: number): number {
  return Math.max(outputTokensMin, tokens);
}

/** What else the answer should contain: thoughts are only worth something later with what the upstream encrypts. */
export function includes({ request }: EncodeInput): string[] {
  const encrypted = 'reasoning.encrypted_content';
  const thinks = wantsReasoning(request) || request.items.some(({ content }) => content.case === 'reasoning');
  if (!thinks || request.include.includes(encrypted)) return [...request.include];
  return [...request.include, encrypted];
}

/** Members that ask for state, which is the gateway's own: its upstreams keep nothing. */
const stateful = ['previous_response_id', 'background', 'stream', 'model'];

/**
 * A Responses client's own JSON for an upstream of the protocol: state is the gateway's, the model, the limit and the tier are the route's, all else arrives as it
 * was sent. Items that stand in the body as they stand in the request arrive as they were sent too; what the gateway put in their place or before them is built.
 */
export function patchedRequest(input: EncodeInput, source: SourceRequest, drops: Drops): SentBody {
  const { request, model, maxOutputTokens, stream } = input;
  const { body: sent, ...rest } = sentBody(source);
  const body: JsonObject = { model };
  for (const [name, value] of Object.entries(sent)) {
    if (value !== null && !stateful.includes(name)) body[name] = value;
  }
  body['input'] = patchedInput(input, sent['input'] ?? [], drops);
  body['store'] = false;
  const include = includes(input);
  if (include.length > 0) body['include'] = include;
  if (maxOutputTokens === undefined) delete body['max_output_tokens'];
  else body['max_output_tokens'] = outputLimit(maxOutputTokens);
  patchServiceTier(body, request.serviceTier, ['auto', 'default']);
  if (stream) body['stream'] = true;
  else delete body['stream_options'];
  return { ...rest, body };
}

/** The items of the request; those that the client sent stand at their end. */
function patchedInput({ request, provider }: EncodeInput, sent: Json, drops: Drops): Json {
  const { items } = request;
  const [only] = items;
  if (typeof sent === 'string' && items.length === 1 && only !== undefined && isText(only, sent)) return sent;
  const encoder = new InputEncoder(request, drops, provider);
  const before = items.length - listIn(sent).length;
  return items.flatMap((item, index) => {
    const encoded = encoder.encode(item);
    if (encoded === undefined) return [];
    const own = objectIn(listIn(sent)[index - before]);
    return [own !== undefined && isSame(own, item) ? withoutId(own) : encoded];
  });
}

function isText({ content }: Item, text: string): boolean {
  if (content.case !== 'message' || content.value.role !== Role.USER) return false;
  const { parts } = content.value;
  return parts.length === 1 && parts[0]?.content.case === 'text' && parts[0].content.value.text === text;
}

/** An id would name what this upstream never kept (case RE-13); null is not sent. */
function withoutId(item: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(item).filter(([name, value]) => name !== 'id' && value !== null));
}

const roles: Readonly<Record<string, Role>> = {
  user: Role.USER,
  system: Role.SYSTEM,
  developer: Role.DEVELOPER,
  assistant: Role.ASSISTANT,
};

/** Whether an item of the body is the one of the request. Thoughts never count as the same: their blobs are opened on the way. */
function isSame(sent: JsonObject, { content }: Item): boolean {
  switch (content.case) {
    case 'message':
      return roles[textIn(sent['role'])] === content.value.role && areSame(sent['content'], content.value.parts);
    case 'toolCall': {
      const { callId, name, arguments: text } = content.value;
      return sent['call_id'] === callId && sent['name'] === name && (sent['arguments'] ?? sent['input']) === text;
    }
    case 'toolResult':
      return (sent['call_id'] ?? '') === content.value.callId && areSame(sent['output'], content.value.parts);
    default:
      return false;
  }
}

function areSame(sent: Json | undefined, parts: readonly Part[]): boolean {
  const said = typeof sent === 'string' ? [{ text: sent }] : listIn(sent);
  return said.length === parts.length && parts.every((part, index) => isSamePart(objectIn(said[index]), part));
}

function isSamePart(sent: JsonObject | undefined, { content }: Part): boolean {
  if (content.case === 'text') return sent?.['text'] === content.value.text;
  if (content.case === 'refusal') return sent?.['refusal'] === content.value.text;
  if (content.case === 'unknown') return JSON.stringify(sent) === content.value.json;
  return sent !== undefined && sent['type'] === partTypes[content.case ?? 'text'];
}

const partTypes: Readonly<Record<string, string>> = {
  image: 'input_image',
  file: 'input_file',
  audio: 'input_audio',
  video: 'input_video',
};
