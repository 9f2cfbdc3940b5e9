/** Calls and results of earlier turns keep all digits of their numbers: identifiers often have more than a JavaScript number holds. */
import { expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { UpstreamCodec } from '../../src/codecs/codec.ts';
import { decodeGemini, geminiCodec } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import type { GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';

const id = '9007199254740993';
const args = `{"ids":[${id}],"7":${id}}`;
const received = (text: string) => ({ body: JSON.parse(text) as unknown, raw: Buffer.from(text), headers: {} });

const clients: Readonly<Record<string, () => GenerateRequest>> = {
  messages: () => {
    const call = `{"type":"tool_use","id":"t1","name":"f","input":${args}}`;
    const result = '{"type":"tool_result","tool_use_id":"t1","content":"ok"}';
    const turns = `{"role":"user","content":"Hi"},{"role":"assistant","content":[${call}]},{"role":"user","content":[${result}]}`;
    return messagesCodec.decodeRequest(received(`{"model":"m","max_tokens":9,"messages":[${turns}]}`)).request;
  },
  gemini: () => {
    const call = `{"role":"model","parts":[{"functionCall":{"name":"f","args":${args}}}]}`;
    const result = `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":${args}}}}]}`;
    const text = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},${call},${result}]}`;
    return decodeGemini({ ...received(text), model: 'm', stream: false }).request;
  },
};
const upstreams: Readonly<Record<string, UpstreamCodec>> = {
  chat: chatCodec,
  responses: responsesCodec,
  messages: messagesCodec,
  gemini: geminiCodec,
};
const pairs = Object.keys(clients).flatMap(client =>
  Object.keys(upstreams).map(upstream => [client, upstream] as const),
);

test.each(pairs)('from a client of %s to %s', (client, upstream) => {
  const request = clients[client]?.() ?? expect.fail('no such client');
  const { body, restore = text => text } =
    upstreams[upstream]?.encodeRequest({
      request,
      model: 'm',
      maxOutputTokens: 9,
      stream: true,
    }) ?? expect.fail('no such upstream');
  const sent = restore(JSON.stringify(body));
  const count = sent.split(id).length - 1;
  expect(count).toBe(client === 'gemini' ? 4 : 2);
});
