/** Requests that real clients send and providers take, although no specification has them; and what providers must not get of them. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { type Item, Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, ToolChoiceMode } from '../../src/gen/tollgate/v1/request_pb.ts';
import { toPortable } from '../../src/generation/portable/portable-request.ts';

const user = { role: 'user', content: 'Hello' };
const fn = { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } };

function decode(codec: ClientCodec, fields: JsonObject): GenerateRequest {
  const body = { model: 'm', ...fields };
  return codec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} }).request;
}
const readRequest = (fields: JsonObject): GenerateRequest => decode(chatCodec, { messages: [user], ...fields });
const decodeItems = (...messages: JsonObject[]): readonly Item[] => decode(chatCodec, { messages }).items;

describe('what real clients send and providers take', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } };

  test('an empty list of content beside calls', () => {
    const items = decodeItems(user, { role: 'assistant', content: [], tool_calls: [call] });
    expect(items.map(({ content }) => content.case)).toEqual(['message', 'toolCall']);
    expect(() => decodeItems(user, { role: 'assistant', content: [] })).toThrow(/messages\.1\.content/);
  });

  test('a tool and a choice of a tool without a type', () => {
    const { type: _, ...untyped } = fn;
    const { tools, toolChoice } = readRequest({ tools: [untyped], tool_choice: { function: { name: 'f' } } });
    expect(tools[0]?.tool).toMatchObject({ case: 'function', value: { name: 'f' } });
    expect(toolChoice).toMatchObject({ mode: ToolChoiceMode.NAMED });
    expect(() => readRequest({ tools: [{}] })).toThrow(/tools\.0\.function/);
  });

  test('the address of an image as a text', () => {
    const part = { type: 'image_url', image_url: 'https://a.example/i.png' };
    const [item] = decodeItems({ role: 'user', content: [part] });
    const parts = item?.content.case === 'message' ? item.content.value.parts : [];
    expect(parts[0]?.content).toMatchObject({
      case: 'image',
      value: { source: { source: { case: 'url', value: 'https://a.example/i.png' } } },
    });
  });

  test('a result without an id, if exactly one call is open', () => {
    const assistant = { role: 'assistant', tool_calls: [call] };
    const result = { role: 'tool', content: 'ok' };
    const [, , answered] = decodeItems(user, assistant, result);
    expect(answered?.content).toMatchObject({ case: 'toolResult', value: { callId: 'c1' } });
    const two = { role: 'assistant', tool_calls: [call, { ...call, id: 'c2' }] };
    expect(() => decodeItems(user, two, result)).toThrow(/messages\.2\.tool_call_id/);
    expect(() => decodeItems(user, result)).toThrow(/messages\.1\.tool_call_id/);
  });

  test('but no empty role', () => {
    expect(() => decodeItems({ role: '', content: 'Hello' })).toThrow(/messages\.0\.role/);
  });
});

test.each([
  ['Messages', messagesCodec, { max_tokens: 9, messages: [{ ...user, role: '' }] }],
  ['Responses', responsesCodec, { input: [{ ...user, role: '' }] }],
] as const)('an empty role is refused by %s too', (_, codec, body) => {
  expect(() => decode(codec, body as unknown as JsonObject)).toThrow(/role/);
});

describe('the line of Claude Code that changes with every request', () => {
  const line = 'x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;';
  const ofSystem = (system: unknown): string => {
    const request = decode(messagesCodec, { max_tokens: 9, system, messages: [user] } as JsonObject);
    const { body } = chatCodec.encodeRequest({
      request: toPortable(request, Protocol.CHAT).request,
      model: 'm',
      maxOutputTokens: 9,
      stream: false,
    });
    return JSON.stringify(body['messages']);
  };
  const text = (value: string): JsonObject => ({ type: 'text', text: value });

  test.each([
    ['a block of its own', [text(line), text('You help.')]],
    ['the first line of a text', `${line}\nYou help.`],
  ])('does not reach a Chat provider: %s', (_, system) => {
    expect(ofSystem(system)).not.toContain('cch=');
    expect(ofSystem(system)).toContain('You help.');
  });

  const ofMessages = (model: string, system: unknown): unknown => {
    const request = decode(messagesCodec, { max_tokens: 9, system, messages: [user] } as JsonObject);
    return messagesCodec.encodeRequest({ request, model, maxOutputTokens: 9, stream: false }).body['system'];
  };

  test('does not reach a Messages provider with models of others; Anthropic’s get it', () => {
    const blocks = [text(line), text('You help.')];
    expect(ofMessages('deepseek-chat', blocks)).toEqual([text('You help.')]);
    expect(ofMessages('deepseek-chat', `${line}\nYou help.`)).toBe('You help.');
    expect(ofMessages('deepseek-chat', [{ ...text(`${line}\nYou help.`), cache_control: null }])).toEqual([
      { ...text('You help.'), cache_control: null },
    ]);
    expect(ofMessages('deepseek-chat', line)).toBeUndefined();
    expect(ofMessages('deepseek-chat', [text(line)])).toBeUndefined();
    expect(ofMessages('deepseek-chat', [text('You help.'), text(line)])).toEqual([text('You help.'), text(line)]);
    expect(ofMessages('anthropic.claude-opus-4-6-v1', blocks)).toEqual(blocks);
  });

  test('is all that is removed', () => {
    expect(ofSystem(line)).toBe(JSON.stringify([user]));
    expect(ofSystem([text('You help.'), text(line)])).toContain('cch=');
  });
});

test('a value of `include` that the gateway does not know stays beside a known one', () => {
  const include = ['message.output_text.logprobs', 'new.thing'];
  const request = decode(responsesCodec, { input: 'Hello', include });
  const { body } = responsesCodec.encodeRequest({ request, model: 'm', maxOutputTokens: 90, stream: false });
  expect(body['include']).toEqual(expect.arrayContaining(include));
});
