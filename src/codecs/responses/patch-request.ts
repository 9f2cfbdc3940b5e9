import type { Item, Part } from '../../gen/tollgate/v1/content_pb.ts';
import { Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint, type SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { wantsReasoning } from '../../generation/check/check-features.ts';
import type { EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { defined, listIn, objectIn, textIn } from '../json.ts';
import { patchServiceTier } from '../service-tier.ts';
import { type SentBody, sentBody } from '../sent-body.ts';
import { InputEncoder } from './encode-input.ts';
import { itemMembers } from './input-schema.ts';
import { responsesRequestSchema } from './request-schema.ts';

/** The lowest output limit that the protocol accepts; if the client's is lower, the gateway itself cuts the answer. */
const outputTokensMin = 16;

/** Returns an output limit that the protocol accepts. */
export function outputLimit(tokens: number): number {
  return Math.max(outputTokensMin, tokens);
}

/** Returns the `include` values to add: the upstream's encrypted content, without which its reasoning can't be continued later. */
export function includes({ request, modelReasons }: EncodeInput): string[] {
  const encrypted = 'reasoning.encrypted_content';
  const thinks =
    wantsReasoning(request) ||
    request.items.some(({ content }) => content.case === 'reasoning') ||
    // Clients of Gemini expect signatures also if they have not asked for thoughts.
    (modelReasons === true && request.endpoint === Endpoint.GEMINI);
  if (!thinks || request.include.includes(encrypted)) return [...request.include];
  return [...request.include, encrypted];
}

const knownMembers = new Set(Object.keys(responsesRequestSchema.shape));
const messageMembers = new Set(['type', 'status', 'role', 'content', 'phase']);
/** The type of a message over a WebSocket, and the members that only such a message has. */
const turnType = 'response.create';
const turnMembers = ['type', 'generate'];

/** Members about stored state, which only the gateway keeps, and members that the route sets. */
const stateful = ['previous_response_id', 'conversation', 'background', 'stream', 'model'];

/**
 * Patches the JSON of a Responses client for a Responses upstream: members about state are removed, and the route sets model, limit and
 * tier; everything else is sent unchanged. Items that are the same in the body and in the request are sent as the client wrote them; items
 * that the gateway has replaced, or inserted before them, are encoded.
 */
export function patchedRequest(input: EncodeInput, source: SourceRequest, drops: Drops): SentBody {
  const { request, model, maxOutputTokens, stream } = input;
  const { body: sent, ...rest } = sentBody(source);
  const body: JsonObject = { model };
  const isTurn = sent['type'] === turnType;
  for (const [name, value] of Object.entries(sent)) {
    if (stateful.includes(name) || (isTurn && turnMembers.includes(name))) continue;
    if (value !== null || !knownMembers.has(name)) body[name] = value;
  }
  body['input'] = patchedInput(input, sent['input'] ?? [], drops);
  body['store'] = false;
  // Values that the gateway does not know are the client's too.
  const include = [...new Set([...listIn(body['include'] ?? []), ...includes(input)])];
  if (include.length > 0) body['include'] = include;
  if (maxOutputTokens === undefined) delete body['max_output_tokens'];
  else body['max_output_tokens'] = outputLimit(maxOutputTokens);
  patchServiceTier(body, request, ['auto', 'default']);
  if (stream) body['stream'] = true;
  else delete body['stream_options'];
  return { ...rest, body };
}

/** Returns the items to send. The items that the client sent are the last of the request; the gateway may have inserted others before. */
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
    return [own === undefined ? encoded : asSent(own, item, encoded)];
  });
}

function isText({ content }: Item, text: string): boolean {
  if (content.case !== 'message' || content.value.role !== Role.USER) return false;
  const { parts } = content.value;
  return parts.length === 1 && parts[0]?.content.case === 'text' && parts[0].content.value.text === text;
}

/** Returns the item as the client sent it if it is unchanged, else as encoded. Reasoning counts as changed, because its blobs were decrypted. */
function asSent(own: JsonObject, item: Item, encoded: JsonObject): JsonObject {
  const { content } = item;
  if (content.case === 'serverTool' || content.case === 'unknown') return isSameOpaque(own, encoded) ? own : encoded;
  const isSealed = own['type'] === encoded['type'] && (content.case === 'reasoning' || content.case === 'compaction');
  if (!isSealed) return isSame(own, item) ? withoutId(own) : encoded;
  const { id, encrypted_content: sealed } = encoded;
  const { encrypted_content: _, ...rest } = withoutId(own);
  // Each member stays at its place.
  const members = Object.keys(own).map((name): [string, Json | undefined] => {
    if (name === 'id') return [name, id];
    return [name, name === 'encrypted_content' ? sealed : rest[name]];
  });
  return defined({ ...Object.fromEntries(members), id, encrypted_content: sealed });
}

/** Returns whether an item that the gateway does not read is unchanged; only members that identify it are compared. */
function isSameOpaque(own: JsonObject, encoded: JsonObject): boolean {
  return ['type', 'role', 'id', 'call_id'].every(name => own[name] === encoded[name]);
}

/** Removes the id, which the upstream does not know because it stored nothing (translation case RE-13), and nulls in known members. */
function withoutId(item: JsonObject): JsonObject {
  const type = textIn(item['type']);
  const known = isItemType(type) ? itemMembers[type] : messageMembers;
  return Object.fromEntries(
    Object.entries(item).filter(([name, value]) => name !== 'id' && (value !== null || !known.has(name))),
  );
}

function isItemType(type: string): type is keyof typeof itemMembers {
  return Object.hasOwn(itemMembers, type);
}

const roles: Readonly<Record<string, Role>> = {
  user: Role.USER,
  system: Role.SYSTEM,
  developer: Role.DEVELOPER,
  assistant: Role.ASSISTANT,
};

/**
 * Returns whether an item of the body is the same as that of the request. Reasoning never is, because its blobs were decrypted.
 */
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
  const sentParts = typeof sent === 'string' ? [{ text: sent }] : listIn(sent);
  return (
    sentParts.length === parts.length && parts.every((part, index) => isSamePart(objectIn(sentParts[index]), part))
  );
}

function isSamePart(sent: JsonObject | undefined, { content }: Part): boolean {
  if (content.case === 'text') return sent?.['text'] === content.value.text;
  if (content.case === 'refusal') return sent?.['refusal'] === content.value.text;
  // The content of an unknown part can't be read, so only its type is compared.
  if (content.case === 'unknown') return sent?.['type'] === objectIn(JSON.parse(content.value.json) as Json)?.['type'];
  return sent !== undefined && sent['type'] === partTypes[content.case ?? 'text'];
}

const partTypes: Readonly<Record<string, string>> = {
  image: 'input_image',
  file: 'input_file',
  audio: 'input_audio',
  video: 'input_video',
};
