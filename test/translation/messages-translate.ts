/** Requests between Chat and Messages. */
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, EncodedRequest, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';

/** The settings of the route and the client's headers. */
interface Options {
  readonly model?: string;
  readonly limit?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

function translate(from: ClientCodec, to: UpstreamCodec, body: JsonObject, options: Options = {}): EncodedRequest {
  const raw = Buffer.from(JSON.stringify(body));
  const { request } = from.decodeRequest({ body, raw, headers: options.headers ?? {} });
  const maxOutputTokens = options.limit ?? request.maxOutputTokens;
  return to.encodeRequest({ request, model: options.model ?? 'up', maxOutputTokens, stream: true });
}
/** Translates a Chat request to Messages. */
export const fromChat = (body: JsonObject, options?: Options): EncodedRequest =>
  translate(chatCodec, messagesCodec, { model: 'm', ...body }, options);
/** Translates a Messages request to Chat. */
export const toChat = (body: JsonObject): EncodedRequest =>
  translate(messagesCodec, chatCodec, { model: 'm', max_tokens: 100, ...body });
/** Encodes a Messages request for a Messages upstream. */
export const same = (body: JsonObject, options?: Options): EncodedRequest =>
  translate(messagesCodec, messagesCodec, { model: 'm', max_tokens: 100, ...body }, options);

/** The user's text, in both interfaces. */
export const user = (content: JsonObject['content'] = 'hi'): JsonObject => ({ role: 'user', content: content ?? '' });
/** A call, as Chat has it. */
export const chatCall = (id: string, args = '{}', name = 'f'): JsonObject => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
/** Returns an assistant message with calls. */
export const calling = (...calls: JsonObject[]): JsonObject => ({
  role: 'assistant',
  content: null,
  tool_calls: calls,
});
/** The result of a call, as Chat has it. */
export const result = (id: string, content = 'done'): JsonObject => ({ role: 'tool', tool_call_id: id, content });
/** A function, as Chat has it. */
export const functionTool = (more: JsonObject = {}): JsonObject => ({
  type: 'function',
  function: { name: 'f', ...more },
});

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
