/** The ten ways to request an answer (interface, whole or streamed), reduced to what the tests of upstreams check. */
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { ItemSchema, Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import type { Gateway } from '../gateway.ts';
import { type Answer, type ChatError, complete, type Streamed, stream } from './chat-client.ts';
import { askGemini, geminiPath } from './gemini-caller.ts';
import { askMessages } from './messages-caller.ts';
import { askResponses } from './responses-caller.ts';

/** What a caller received. */
export interface Seen {
  readonly requestId: string;
  /** `answer`: complete, with a finish reason. `refused`: an error instead of an answer. `broken`: an error after the answer had begun. */
  readonly end: 'answer' | 'refused' | 'broken';
  /** The HTTP status of a refusal. */
  readonly status?: number;
  readonly code?: string;
  readonly retryAfter?: string;
  /** Members of the error that are not as documented. */
  readonly wrong: readonly string[];
  readonly text: string;
  readonly arguments: string;
  readonly finish: string | undefined;
}

/** A way to send a request. */
export interface Way {
  readonly name: string;
  readonly streamed: boolean;
  /** True if the interface shows a call only once it is whole. */
  readonly wholeCalls?: true;
  readonly ask: (gateway: Gateway, model: string, more?: object) => Promise<Seen>;
}

/** How long `eventually` waits: no load of the machine makes a test wait so long for what does come. */
const eventuallyMs = 30_000;

/** Calls `probe` for up to 30 s until it returns a value, and returns that; for concurrent tests, in which `expect.poll` does not work. */
export async function eventually<Value>(
  what: string,
  probe: () => Promise<Value | undefined> | Value | undefined,
): Promise<Value> {
  for (const deadline = performance.now() + eventuallyMs; performance.now() < deadline; await sleep(20)) {
    const found = await probe();
    if (found !== undefined) return found;
  }
  throw new Error(`${what} did not come within ${eventuallyMs / 1000} s`);
}

/** The prompt of every request. */
export const prompt = 'What is the weather in Paris?';
const parameters = { type: 'object', properties: { city: { type: 'string' } } };

const chatBody = (model: string, more: object = {}): Record<string, unknown> => ({
  model,
  messages: [{ role: 'user', content: prompt }],
  tools: [{ type: 'function', function: { name: 'get_weather', parameters } }],
  ...more,
});

const envelope = [
  'code',
  'community',
  'docs',
  'id',
  'message',
  'param',
  'status_code',
  'support',
  'tip',
  'type',
] as const;
const streamEnvelope = ['code', 'id', 'message', 'param', 'type'] as const;

/** Returns the members of an error that are missing or wrong. */
function wrongIn(error: ChatError, requestId: string, members: readonly string[]): string[] {
  const named = new Set(Object.keys(error));
  return [
    ...members.filter(name => !named.has(name)),
    ...(error.id === requestId ? [] : [`id ${error.id}`]),
    ...(error.message === '' ? ['message'] : []),
  ];
}

const readRequestId = ({ headers }: { readonly headers: Headers }): string => headers.get('x-request-id') ?? '';

function readWholeAnswer(answer: Answer): Seen {
  const { error } = answer.body;
  const requestId = readRequestId(answer);
  const seen = {
    requestId,
    text: answer.text,
    arguments: answer.calls.map(call => call.function.arguments).join(),
  };
  if (error === undefined) return { ...seen, end: 'answer', wrong: [], finish: answer.finish };
  return { ...seen, ...refusal(answer, error, requestId), finish: undefined };
}

function refusal(
  answer: Answer | Streamed,
  error: ChatError,
  requestId: string,
): Pick<Seen, 'end' | 'status' | 'code' | 'wrong'> {
  const retryAfter = answer.headers.get('retry-after');
  const wrong = wrongIn(error, requestId, envelope);
  if (error.status_code !== answer.status) wrong.push('status_code');
  return {
    end: 'refused',
    status: answer.status,
    code: error.code,
    wrong,
    ...(retryAfter === null ? {} : { retryAfter }),
  };
}

function readStreamedAnswer(answer: Streamed): Seen {
  const { error, text, finish } = answer;
  const requestId = readRequestId(answer);
  const seen = { requestId, text, arguments: answer.calls.map(call => call.function.arguments).join(), finish };
  if (error === undefined) return { ...seen, end: 'answer', wrong: answer.done ? [] : ['no [DONE]'] };
  if (answer.status !== 200) return { ...seen, ...refusal(answer, error, requestId) };
  const wrong = wrongIn(error, requestId, streamEnvelope);
  if (answer.done) wrong.push('[DONE] after an error');
  return { ...seen, end: 'broken', code: error.code, wrong };
}

/** Requests an answer through Messages. */
async function readMessagesAnswer(gateway: Gateway, model: string, streamed: boolean): Promise<Seen> {
  const answer = await askMessages(gateway, {
    model,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: prompt }],
    tools: [{ name: 'get_weather', input_schema: parameters }],
    ...(streamed ? { stream: true } : {}),
  });
  const { text, arguments: args, finish, done, status, headers } = answer;
  const requestId = readRequestId(answer);
  const seen = { requestId, text, arguments: args, finish };
  if (answer.error === undefined) return { ...seen, end: 'answer', wrong: done ? [] : ['no message_stop'] };
  const error = answer.error as unknown as ChatError;
  const named = status === 200 ? streamEnvelope : envelope;
  const wrong = [...wrongIn(error, requestId, named), ...(done ? ['message_stop after an error'] : [])];
  if (headers.get('request-id') !== requestId) wrong.push('request-id');
  if (status === 200) return { ...seen, end: 'broken', code: error.code, wrong };
  const retryAfter = headers.get('retry-after');
  const refused = { ...seen, end: 'refused' as const, status, code: error.code, wrong };
  return retryAfter === null ? refused : { ...refused, retryAfter };
}

/** Requests an answer through Responses. */
async function readResponsesAnswer(gateway: Gateway, model: string, streamed: boolean): Promise<Seen> {
  const answer = await askResponses(gateway, {
    model,
    input: prompt,
    tools: [{ type: 'function', name: 'get_weather', parameters }],
    store: false,
    stream: streamed,
  });
  const { text, arguments: args, finish, status, headers } = answer;
  const requestId = readRequestId(answer);
  const seen = { requestId, text, arguments: args, finish };
  if (answer.error === undefined) return { ...seen, end: 'answer', wrong: answer.wrong };
  const error = answer.error as unknown as ChatError;
  const wrong = [...wrongIn(error, requestId, status === 200 ? streamEnvelope : envelope), ...answer.wrong];
  if (status === 200) return { ...seen, end: 'broken', code: error.code, wrong };
  const retryAfter = headers.get('retry-after');
  const refused = { ...seen, end: 'refused' as const, status, code: error.code, wrong };
  return retryAfter === null ? refused : { ...refused, retryAfter };
}

/** Requests an answer through Gemini's interface. */
async function readGeminiAnswer(gateway: Gateway, model: string, streamed: boolean): Promise<Seen> {
  const path = geminiPath(model, streamed ? 'streamGenerateContent?alt=sse' : 'generateContent');
  const answer = await askGemini(gateway, path, {
    contents: [{ role: 'user', parts: [{ text: prompt }] }],
    tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: parameters }] }],
    generationConfig: { maxOutputTokens: 1_000 },
  });
  const { status, headers, error, reason, text, ms } = answer;
  const calls = answer.parts.flatMap(({ functionCall }) => functionCall ?? []);
  // In Google's words a call ends with STOP.
  const finish = answer.finish === 'STOP' && calls.length > 0 ? 'tool_calls' : answer.finish;
  const requestId = readRequestId(answer);
  const args = calls.map(call => JSON.stringify(call.args)).join();
  const seen = { requestId, text, arguments: args, finish, ms };
  if (error === undefined) {
    return { ...seen, end: 'answer', wrong: answer.chunks.at(-1)?.usageMetadata === undefined ? ['no usage'] : [] };
  }
  const { id } = error.details?.[0]?.metadata ?? {};
  const wrong = [
    ...(id === requestId ? [] : [`id ${id}`]),
    ...(error.message === '' ? ['message'] : []),
    ...(error.status === '' ? ['status'] : []),
  ];
  const code = String(reason);
  if (status === 200) return { ...seen, end: 'broken', code, wrong };
  if (error.code !== status) wrong.push(`code ${error.code}`);
  const retryAfter = headers.get('retry-after');
  const refused = { ...seen, end: 'refused' as const, status, code, wrong };
  return retryAfter === null ? refused : { ...refused, retryAfter };
}

/** Returns an RPC request for an answer. */
export function rpcRequest(model: string, delivery: Delivery): Parameters<ReturnType<typeof rpcClient>['generate']>[0] {
  const parts = [{ content: { case: 'text' as const, value: { text: prompt } } }];
  const item = create(ItemSchema, { content: { case: 'message', value: { role: Role.USER, parts } } });
  const tool = { name: 'get_weather', parametersJson: JSON.stringify(parameters) };
  return { model, delivery, items: [item], tools: [{ tool: { case: 'function', value: tool } }] };
}

/** Returns a gRPC client with an API key. */
export function rpcClient({ rpcUrl, apiKey }: Pick<Gateway, 'rpcUrl' | 'apiKey'>) {
  const transport = createGrpcTransport({
    baseUrl: rpcUrl,
    interceptors: [
      next => request => {
        request.header.set('authorization', `Bearer ${apiKey}`);
        return next(request);
      },
    ],
  });
  return createClient(GenerationService, transport);
}

const clients = new Map<string, ReturnType<typeof rpcClient>>();

async function askRpc(gateway: Gateway, model: string, delivery: Delivery): Promise<Seen> {
  const client = clients.get(gateway.rpcUrl) ?? rpcClient(gateway);
  clients.set(gateway.rpcUrl, client);
  let requestId = '';
  const events: GenerationEvent['event'][] = [];
  const seen = (): Omit<Seen, 'end' | 'wrong'> => ({
    requestId,
    ...rpcTexts(events),
    finish: rpcFinish(events),
  });
  try {
    const replies = client.generate(rpcRequest(model, delivery), {
      onHeader: headers => (requestId = headers.get('x-request-id') ?? ''),
    });
    for await (const reply of replies) events.push(...reply.events.map(({ event }) => event));
    return { ...seen(), end: 'answer', wrong: events.at(-1)?.case === 'completed' ? [] : ['no completed'] };
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const [detail] = error.findDetails(ErrorDetailSchema);
    requestId ||= detail?.requestId ?? '';
    const wrong = [
      ...(detail === undefined ? [`no detail: ${Code[error.code]} ${error.message}`] : []),
      ...(detail?.requestId === requestId ? [] : ['requestId']),
      ...(detail?.message === '' ? ['message'] : []),
      ...(events.some(event => event.case === 'completed') ? ['completed before an error'] : []),
    ];
    return {
      ...seen(),
      end: events.length === 0 ? 'refused' : 'broken',
      ...(events.length === 0 && detail !== undefined ? { status: detail.httpStatus } : {}),
      code: detail?.code ?? '',
      wrong,
      ...(detail?.retryAfterMs === undefined ? {} : { retryAfter: `${Number(detail.retryAfterMs) / 1_000}` }),
    };
  }
}

function rpcTexts(events: readonly GenerationEvent['event'][]): Pick<Seen, 'text' | 'arguments'> {
  const texts = { text: '', arguments: '' };
  for (const event of events) {
    if (event.case !== 'delta') continue;
    texts[event.value.kind === DeltaKind.ARGUMENTS ? 'arguments' : 'text'] += event.value.text;
  }
  return texts;
}

function rpcFinish(events: readonly GenerationEvent['event'][]): string | undefined {
  const finish = events.find(event => event.case === 'finished');
  if (finish?.case !== 'finished') return undefined;
  return finish.value.reason === FinishReason.TOOL_CALLS ? 'tool_calls' : `reason ${finish.value.reason}`;
}

/** The ways. */
export const ways: readonly Way[] = [
  {
    name: 'Chat stream',
    streamed: true,
    ask: async (gateway, model, more) => readStreamedAnswer(await stream(gateway, chatBody(model, more))),
  },
  {
    name: 'Chat whole',
    streamed: false,
    ask: async (gateway, model, more) => readWholeAnswer(await complete(gateway, chatBody(model, more))),
  },
  { name: 'Messages stream', streamed: true, ask: (gateway, model) => readMessagesAnswer(gateway, model, true) },
  { name: 'Messages whole', streamed: false, ask: (gateway, model) => readMessagesAnswer(gateway, model, false) },
  { name: 'Responses stream', streamed: true, ask: (gateway, model) => readResponsesAnswer(gateway, model, true) },
  { name: 'Responses whole', streamed: false, ask: (gateway, model) => readResponsesAnswer(gateway, model, false) },
  {
    name: 'Gemini stream',
    streamed: true,
    wholeCalls: true,
    ask: (gateway, model) => readGeminiAnswer(gateway, model, true),
  },
  { name: 'Gemini whole', streamed: false, ask: (gateway, model) => readGeminiAnswer(gateway, model, false) },
  { name: 'RPC stream', streamed: true, ask: (gateway, model) => askRpc(gateway, model, Delivery.STREAMED) },
  { name: 'RPC whole', streamed: false, ask: (gateway, model) => askRpc(gateway, model, Delivery.WHOLE) },
];
