/** Requests between Responses and the other protocols. */
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, EncodedRequest, Json, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';

/** Returns the request that the core gets for a body. */
export function decoded(from: ClientCodec, body: JsonObject): GenerateRequest {
  const raw = Buffer.from(JSON.stringify(body));
  return from.decodeRequest({ body, raw, headers: {} }).request;
}

/** Returns the body that an upstream gets for a request. */
export function encoded(to: UpstreamCodec, request: GenerateRequest, limit = request.maxOutputTokens): EncodedRequest {
  return to.encodeRequest({ request, model: 'up', maxOutputTokens: limit, stream: true, provider: 'acme' });
}

/** Translates a Responses request to Chat. */
export const toChat = (body: JsonObject): EncodedRequest =>
  encoded(chatCodec, decoded(responsesCodec, { model: 'm', ...body }));
/** Translates a Responses request to Messages. */
export const toMessages = (body: JsonObject): EncodedRequest =>
  encoded(messagesCodec, decoded(responsesCodec, { model: 'm', ...body }));
/** Encodes a Responses request for a Responses upstream. */
export const same = (body: JsonObject, limit?: number): EncodedRequest =>
  encoded(responsesCodec, decoded(responsesCodec, { model: 'm', ...body }), limit);
/** Translates a Chat request to Responses. */
export const fromChat = (body: JsonObject, limit?: number): EncodedRequest =>
  encoded(responsesCodec, decoded(chatCodec, { model: 'm', ...body }), limit);
/** Translates a Messages request to Responses. */
export const fromMessages = (body: JsonObject, limit?: number): EncodedRequest =>
  encoded(responsesCodec, decoded(messagesCodec, { model: 'm', max_tokens: 100, ...body }), limit);

/** The user's text, in all interfaces. */
export const user = (content: Json = 'hi'): JsonObject => ({ role: 'user', content });
/** A call, as an item. */
export const call = (id: string, args = '{}', name = 'f'): JsonObject => ({
  type: 'function_call',
  call_id: id,
  name,
  arguments: args,
});
/** Its result, as an item. */
export const result = (id: string, output: Json = 'done'): JsonObject => ({
  type: 'function_call_output',
  call_id: id,
  output,
});
/** A function. */
export const functionTool = (more: JsonObject = {}): JsonObject => ({ type: 'function', name: 'f', ...more });
/** An image. */
export const png = 'data:image/png;base64,iVBORw0KGgo=';

/** Returns an item without its id. */
export const withoutId = (item: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(item).filter(([name]) => name !== 'id'));

/** Returns the code of the refusal that `act` throws and the field that it names. */
export function refusal(act: () => unknown): string {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return `${thrown.code} ${thrown.facts.param ?? ''}`;
    throw thrown;
  }
  return 'none';
}
