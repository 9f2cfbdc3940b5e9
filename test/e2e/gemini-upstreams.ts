/** Providers of every protocol that answer with the frames that a test sets, for tests of Gemini's clients. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { askGemini, geminiPath, type GeminiReply } from './gemini-caller.ts';
import { dataFrame, type Json, typedFrame } from './scripted-upstream.ts';

/** A protocol of providers. */
export type Protocol = 'chat' | 'responses' | 'messages' | 'gemini';
/** All protocols. */
export const protocols: readonly Protocol[] = ['chat', 'responses', 'messages', 'gemini'];

/** Returns a frame of Chat. */
export const chatChunk = (delta: Json, more: Json = {}): string =>
  dataFrame({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, ...more }],
  });
/** Returns the last frames of Chat. */
export const chatEnd = (finish_reason = 'stop'): string[] => [
  chatChunk({}, { finish_reason }),
  dataFrame({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [],
    usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
  }),
  'data: [DONE]\n\n',
];
const usage = { input_tokens: 9, output_tokens: 3, total_tokens: 12 };
const response = (status: string, output: readonly Json[], more: Json = {}): Json => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status,
  model: 'm',
  output,
  usage,
  ...more,
});
/** Returns a part of a Responses message. */
export const outputText = (text: string, annotations: Json[] = []): Json => ({
  type: 'output_text',
  text,
  annotations,
  logprobs: [],
});
/** Returns a Responses message. */
export const messageItem = (content: readonly Json[]): Json => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content,
});
/** Returns a stream of Responses with these items. */
export const responsesFrames = (output: readonly Json[], status = 'completed', more: Json = {}): string[] => [
  typedFrame('response.created', { response: response('in_progress', [], { usage: null }) }),
  ...output.flatMap((item, output_index) => [
    typedFrame('response.output_item.added', {
      output_index,
      item: { ...item, status: 'in_progress', ...(item['type'] === 'message' ? { content: [] } : {}) },
    }),
    ...((item['type'] === 'message' ? item['content'] : []) as Json[]).flatMap((part, content_index) => [
      typedFrame('response.content_part.added', {
        output_index,
        content_index,
        item_id: item['id'],
        part: part['type'] === 'refusal' ? { type: 'refusal', refusal: '' } : outputText(''),
      }),
      part['type'] === 'refusal'
        ? typedFrame('response.refusal.delta', {
            output_index,
            content_index,
            item_id: item['id'],
            delta: part['refusal'],
          })
        : typedFrame('response.output_text.delta', {
            output_index,
            content_index,
            item_id: item['id'],
            delta: part['text'],
            logprobs: [],
          }),
      ...((part['annotations'] ?? []) as Json[]).map((annotation, annotation_index) =>
        typedFrame('response.output_text.annotation.added', {
          output_index,
          content_index,
          item_id: item['id'],
          annotation_index,
          annotation,
        }),
      ),
      typedFrame('response.content_part.done', { output_index, content_index, item_id: item['id'], part }),
    ]),
    typedFrame('response.output_item.done', { output_index, item }),
  ]),
  typedFrame(`response.${status}`, { response: response(status, output, more) }),
];
/** Returns a stream of Messages: for each block its start and its deltas. */
export const messagesFrames = (
  blocks: readonly (readonly [start: Json, ...deltas: Json[]])[],
  stop_reason = 'end_turn',
  more: Json = {},
): string[] => [
  typedFrame('message_start', {
    message: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [],
      usage: { input_tokens: 9, output_tokens: 1 },
    },
  }),
  ...blocks.flatMap(([content_block, ...deltas], index) => [
    typedFrame('content_block_start', { index, content_block }),
    ...deltas.map(delta => typedFrame('content_block_delta', { index, delta })),
    typedFrame('content_block_stop', { index }),
  ]),
  typedFrame('message_delta', { delta: { stop_reason, stop_sequence: null, ...more }, usage: { output_tokens: 3 } }),
  typedFrame('message_stop', {}),
];
/** Returns a frame of Gemini. */
export const geminiFrame = (parts: readonly Json[], more: Json = {}): string =>
  dataFrame({
    candidates: [{ index: 0, content: { role: 'model', parts }, ...more }],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 3, totalTokenCount: 12 },
    modelVersion: 'gemini-9',
    responseId: 'resp-of-google',
  });
/** The answer “one two”. */
export const plain: Readonly<Record<Protocol, readonly string[]>> = {
  chat: [chatChunk({ content: 'one' }), chatChunk({ content: ' two' }), ...chatEnd()],
  responses: responsesFrames([messageItem([outputText('one two')])]),
  messages: messagesFrames([
    [
      { type: 'text', text: '' },
      { type: 'text_delta', text: 'one' },
      { type: 'text_delta', text: ' two' },
    ],
  ]),
  gemini: [geminiFrame([{ text: 'one' }]), geminiFrame([{ text: ' two' }], { finishReason: 'STOP' })],
};

/** The providers, and a gateway in front of them with the models `up/PROTOCOL`. */
export interface Upstreams {
  readonly gateway: Gateway;
  /** What the providers received. */
  readonly seen: { readonly protocol: Protocol; readonly path: string; readonly raw: string; readonly body: Json }[];
  /** The frames of all answers; undefined: `plain`. */
  frames: readonly string[] | undefined;
  /** The milliseconds before each frame. */
  delayMs: number;
  stop(): Promise<void>;
}

const readBody = async (request: IncomingMessage): Promise<string> => {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
};

/** Starts providers and a gateway. */
export async function startUpstreams(more = ''): Promise<Upstreams> {
  const seen: Upstreams['seen'] = [];
  const server = createServer((request, answer) => {
    void (async () => {
      const raw = await readBody(request);
      const path = request.url ?? '';
      const protocol = path.includes('/v1beta/')
        ? 'gemini'
        : (protocols.find(name => path.startsWith(`/${name}/`)) ?? 'chat');
      seen.push({ protocol, path, raw, body: JSON.parse(raw) as Json });
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const frame of upstreams.frames ?? plain[protocol]) {
        if (upstreams.delayMs > 0) await sleep(upstreams.delayMs);
        answer.write(frame);
      }
      answer.end();
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const model = (id: string, provider: string, name: string): string =>
    `  - { id: ${id}, max_output_tokens: 4096, capabilities: { vision: true, function_call: true, reasoning: true }, pricing: { input: 1, output: 1 }, routes: [{ provider: ${provider}, model: ${name} }] }\n`;
  const gateway = await startGateway({
    config: `
simulator: { enabled: false }
retries: 0
keep_alive: 100ms
${more}
providers:
  chat: { protocol: chat, base_url: "${origin}/chat/v1" }
  responses: { protocol: responses, base_url: "${origin}/responses/v1" }
  messages: { protocol: messages, base_url: "${origin}/messages" }
  gemini: { protocol: gemini, base_url: "${origin}" }
models:
${model('up/chat', 'chat', 'm')}${model('up/responses', 'responses', 'gpt-5')}${model('up/messages', 'messages', 'claude-sonnet-4-5')}${model('up/gemini', 'gemini', 'gemini-2.5-flash')}`,
  });
  const stop = async (): Promise<void> => {
    await endGateway(gateway);
    server.closeAllConnections();
    server.close();
  };
  const upstreams: Upstreams = { gateway, seen, frames: undefined, delayMs: 0, stop };
  return upstreams;
}

/** Returns a content of the user. */
export const user = (text: string): Json => ({ role: 'user', parts: [{ text }] });
/** The forms of an answer: whole, a JSON array that grows, and events. */
export const methods = ['generateContent', 'streamGenerateContent', 'streamGenerateContent?alt=sse'] as const;
/** A form of an answer. */
export type Method = (typeof methods)[number];

/** Asks the model of a protocol. */
export async function ask(
  { gateway }: Pick<Upstreams, 'gateway'>,
  protocol: Protocol,
  body: Json = {},
  method: Method = 'generateContent',
): Promise<GeminiReply> {
  return askGemini(gateway, geminiPath(`up/${protocol}`, method), { contents: [user('Hi')], ...body });
}
