import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, DecodedRequest, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { completionsCodec } from '../../src/codecs/completions/index.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { AnswerRenderer, geminiCodec, renderGemini } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
import { loadTokenizer } from '../../src/generation/tokens.ts';
import { toPortable } from '../../src/generation/portable/portable-request.ts';
import { objectsIn, textIn } from '../../src/codecs/json.ts';
import { AnswerReader } from '../../src/upstreams/answer-reader.ts';
import { assemble } from './assemble.ts';
import { compareFacts, type Difference } from './compare.ts';
import type { Exchange, PlayedProtocol } from './exchange.ts';
import { type Facts, readFacts } from './facts.ts';

/** Plays recorded exchanges through the parts of the gateway that read and write: the reader of answers, the codecs and the guard. */

/** One way in which an exchange was played, and what came out otherwise; empty: all was equal. */
export interface Play {
  /** "chat -> messages, streamed", "request", "second turn". */
  readonly way: string;
  readonly differences: readonly Difference[];
}

/** The codecs of providers and, without Gemini, of clients. */
const upstreams: Readonly<Record<PlayedProtocol, UpstreamCodec>> = {
  chat: chatCodec,
  responses: responsesCodec,
  messages: messagesCodec,
  completions: completionsCodec,
  gemini: geminiCodec,
};
const clients: Readonly<Partial<Record<PlayedProtocol, ClientCodec>>> = {
  chat: chatCodec,
  responses: responsesCodec,
  messages: messagesCodec,
  completions: completionsCodec,
};

/** Plays an exchange in every way; undefined if the recorded body is no answer: an error inside a stream, or several answers in one. */
export async function playExchange(exchange: Exchange): Promise<readonly Play[] | undefined> {
  const { protocol, body } = exchange;
  const recorded = assemble(protocol, body);
  if (recorded === undefined || isNoAnswer(recorded, body)) return undefined;
  await loadTokenizer();
  const want = readFacts(protocol, recorded);
  const plays: Play[] = [playRequest(exchange)];
  const targets: PlayedProtocol[] =
    protocol === 'completions' ? ['completions'] : ['chat', 'responses', 'messages', 'gemini'];
  for (const target of targets) {
    for (const stream of [false, true]) {
      const way = `${protocol} -> ${target}, ${stream ? 'streamed' : 'whole'}`;
      plays.push({ way, differences: playAnswer(exchange, { target, stream, want }) });
    }
  }
  if (protocol === 'chat' || protocol === 'messages' || protocol === 'responses')
    plays.push(playSecondTurn(exchange, recorded));
  return plays;
}

/** Returns whether a body has several answers, still runs, was paused, or has answers that no server sent. */
function isNoAnswer(answer: JsonObject, body: string): boolean {
  const begun = body.match(/"type": ?"(?:message_start|response\.created)"/g)?.length ?? 0;
  const isRunning = ['queued', 'in_progress', 'failed', 'cancelled'].includes(textIn(answer['status']));
  // JSON of Google's Python client, which no server sends.
  const isNumbered = objectsIn(answer['candidates']).some(each => typeof each['finishReason'] === 'number');
  // Events without the blank lines between them are one event.
  const isJoined = /^data:.*\r?\ndata:/m.test(body);
  const hasFailed = objectsIn(answer['choices']).some(each => each['finish_reason'] === 'error');
  if (isJoined || hasFailed) return true;
  return begun > 1 || isRunning || isNumbered || answer['stop_reason'] === 'pause_turn';
}

function playRequest({ protocol, request }: Exchange): Play {
  const client = clients[protocol];
  if (client === undefined || request === null) return { way: 'request', differences: [] };
  try {
    const body = { ...request, model: 'm' };
    client.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
    return { way: 'request', differences: [] };
  } catch (thrown) {
    return { way: 'request', differences: [{ what: 'refused', want: 'taken', got: message(thrown) }] };
  }
}

interface AnswerPlay {
  readonly target: PlayedProtocol;
  readonly stream: boolean;
  readonly want: Facts;
}

function playAnswer(exchange: Exchange, { target, stream, want }: AnswerPlay): Difference[] {
  try {
    const events = readEvents(exchange);
    const rendered = stream ? assemble(target, renderStream(target, events)) : renderWhole(target, events);
    if (rendered === undefined) return [{ what: 'failed', want: 'an answer', got: 'a stream without one' }];
    return compareFacts(want, readFacts(target, rendered), {
      hasImages: target !== 'messages' && exchange.protocol !== 'messages',
      hasWritten: target !== 'gemini',
      leavesOutCutCalls: target === 'gemini' || (target === 'messages' && !stream),
      keepsIds: exchange.protocol === target && target !== 'gemini',
    });
  } catch (thrown) {
    return [{ what: 'failed', want: 'an answer', got: message(thrown) }];
  }
}

/** Reads the recorded bytes, cut at odd places, and returns the events that a client's codec gets. Throws what the gateway would report as a failure of the provider. */
function readEvents({ id, protocol, provider, stream, body }: Exchange): GenerationEvent[] {
  const reader = new AnswerReader({ codec: upstreams[protocol], provider, eventBytesMax: 2 ** 28 }, 1);
  const guard = new Guard(makeRequest({ model: 'm' }), { limit: Infinity });
  reader.begin(stream ? 'text/event-stream' : 'application/json');
  const events: GenerationEvent[] = [];
  const bytes = Buffer.from(body);
  let seed = Number.parseInt(id.slice(0, 8), 16) || 1;
  for (let at = 0; at < bytes.length && !reader.completed;) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    const end = at + 1 + (seed % Math.max(7, Math.ceil(bytes.length / 20)));
    take(reader.push(bytes.subarray(at, end)), guard, events);
    at = end;
  }
  if (!reader.completed) take(reader.end(), guard, events);
  guard.end();
  return events;
}

function take(batch: ReturnType<AnswerReader['push']>, guard: Guard, events: GenerationEvent[]): void {
  events.push(...guard.push(batch.events));
  if (batch.failure !== undefined) throw batch.failure;
}

const decoded: DecodedRequest = {
  request: makeRequest({ model: 'm' }),
  stream: true,
  includeUsage: true,
  ownStopReasons: true,
  showsThoughts: true,
};

function renderWhole(target: PlayedProtocol, events: readonly GenerationEvent[]): JsonObject {
  const answer = clients[target]?.renderWhole(events, decoded) ?? renderGemini(events, decoded);
  return JSON.parse(JSON.stringify(answer)) as JsonObject;
}

function renderStream(target: PlayedProtocol, events: readonly GenerationEvent[]): string {
  const renderer = clients[target]?.renderStream(decoded);
  if (renderer !== undefined) return events.map(event => renderer.push(event)).join('') + renderer.end();
  const google = new AnswerRenderer(decoded);
  const chunks: string[] = [];
  for (const event of events) {
    google.push(event);
    const chunk = google.take();
    if (chunk !== undefined) chunks.push(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  return chunks.join('');
}

/** Sends the answer back as a client does in its next request, and checks that the provider gets its signatures as they came. Clients of Responses get those sealed by the core, which does not take part here. */
function playSecondTurn(exchange: Exchange, recorded: JsonObject): Play {
  const way = 'second turn';
  const { protocol, provider } = exchange;
  const client = clients[protocol];
  if (client === undefined) return { way, differences: [] };
  try {
    const answer = renderWhole(protocol, readEvents(exchange));
    const body = followUp(protocol, answer);
    const { request } = client.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
    const own = { ...request, source: undefined };
    const { body: sent } = upstreams[protocol].encodeRequest({
      request: toPortable(own, upstreams[protocol].protocol).request,
      model: 'm',
      maxOutputTokens: 100,
      stream: false,
      provider,
    });
    const text = JSON.stringify(sent);
    const blobs = protocol === 'responses' ? [] : listBlobs(recorded);
    const lost = blobs.filter(blob => !text.includes(JSON.stringify(blob).slice(1, -1)));
    return { way, differences: lost.length === 0 ? [] : [{ what: 'blobs', want: lost.length, got: 0 }] };
  } catch (thrown) {
    return { way, differences: [{ what: 'refused', want: 'taken', got: message(thrown) }] };
  }
}

/** Returns the request that continues a conversation after an answer: its results, if it calls tools, and a text. */
function followUp(protocol: PlayedProtocol, answer: JsonObject): JsonObject {
  const { calls } = readFacts(protocol, answer);
  if (protocol === 'responses') {
    const results = objectsIn(answer['output']).flatMap(({ type, call_id }) =>
      type === 'function_call' || type === 'custom_tool_call'
        ? [{ type: `${type}_output`, call_id: call_id ?? '', output: 'done' }]
        : [],
    );
    return { model: 'm', input: ['Hi', ...objectsIn(answer['output']), ...results].map(toItem) };
  }
  const user = { role: 'user', content: 'Hi' };
  if (protocol === 'messages') {
    const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'done' }));
    const next = { role: 'user', content: results.length > 0 ? results : 'Go on' };
    return {
      model: 'm',
      max_tokens: 9,
      messages: [user, { role: 'assistant', content: answer['content'] ?? [] }, next],
    };
  }
  const message = objectsIn(answer['choices'])[0]?.['message'] ?? {};
  const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'done' }));
  return { model: 'm', messages: [user, message, ...results, user] };
}

function toItem(item: string | JsonObject): JsonObject {
  return typeof item === 'string' ? { role: 'user', content: item } : item;
}

/** Lists the signatures and the sealed reasoning of an answer, which its provider must get back as they came. */
function listBlobs(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listBlobs);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) =>
    typeof each === 'string' && each !== '' && /^(signature|encrypted_content|thoughtSignature)$/.test(name)
      ? [each]
      : listBlobs(each),
  );
}

function message(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause instanceof Error ? `: ${thrown.cause.message}` : '';
  return `${thrown.message}${cause}`.slice(0, 200);
}
