/** An upstream over HTTP whose answer is selected by the prompt, streamed or not, and clients of each interface. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';
import type { Gateway } from '../gateway.ts';
import { post } from './chat-client.ts';

/** Any JSON object. */
export type Json = Record<string, unknown>;

/** An answer of the upstream: the frames of its stream, and the same as one body. */
export interface Scripted {
  readonly frames: readonly string[];
  readonly whole: unknown;
}

/** Returns a frame without an event name. */
export const dataFrame = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
/** Returns a frame whose event name is its `type`. */
export const typedFrame = (type: string, members: Json): string => `event: ${type}\n${dataFrame({ type, ...members })}`;

/** A server whose answers have words: it sends the first answer whose word is in the request, or 404. */
export class ScriptedUpstream {
  readonly bodies: Json[] = [];
  readonly #server: Server;

  private constructor(scripts: Readonly<Record<string, Scripted>>) {
    this.#server = createServer((request, response) => {
      void (async () => {
        const raw = await readBody(request);
        const body = JSON.parse(raw || '{}') as Json;
        this.bodies.push(body);
        const [, script] = Object.entries(scripts).find(([word]) => raw.includes(word)) ?? [];
        if (script === undefined) {
          response.writeHead(404).end('{}');
          return;
        }
        const isStream = body['stream'] === true || String(request.url).includes('streamGenerateContent');
        response.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json');
        response.end(isStream ? script.frames.join('') : JSON.stringify(script.whole));
      })();
    });
  }

  static async start(scripts: Readonly<Record<string, Scripted>>): Promise<ScriptedUpstream> {
    const upstream = new ScriptedUpstream(scripts);
    upstream.#server.listen(0, '127.0.0.1');
    await once(upstream.#server, 'listening');
    return upstream;
  }

  /** The origin of the server. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

/** A call as a client received it. */
export interface SeenCall {
  readonly name: string;
  /** The arguments as text; for Messages, the JSON of `input`. */
  readonly arguments: string;
  /** Only in Responses. */
  readonly status?: string;
}

/** An answer as a client received it. */
export interface SeenAnswer {
  readonly status: number;
  readonly requestId: string;
  /** The finish reason in the interface's words; for Responses, the status and the reason. Undefined if the answer failed. */
  readonly finish: string | undefined;
  readonly text: string;
  readonly calls: readonly SeenCall[];
  /** The code of the error with which it ended; undefined if there was none. */
  readonly error: string | undefined;
  /** The whole body, or all events. */
  readonly said: Json | readonly Json[];
}

/** A client interface. */
export interface Interface {
  readonly name: string;
  /** Returns the path for a model. */
  readonly path: (model: string, streamed: boolean) => string;
  body(word: string): Json;
  whole(answer: Json): Pick<SeenAnswer, 'finish' | 'text' | 'calls'>;
  stream(events: readonly Json[]): Pick<SeenAnswer, 'finish' | 'text' | 'calls'>;
}

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value ?? {}) as Json;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const parameters = { type: 'object', properties: { city: { type: 'string' } } };

const chat: Interface = {
  name: 'Chat',
  path: () => '/v1/chat/completions',
  body: word => ({
    messages: [{ role: 'user', content: word }],
    tools: ['f', 'g'].map(name => ({ type: 'function', function: { name, parameters } })),
  }),
  whole: answer => {
    const [choice] = list(answer['choices']);
    const message = object(choice?.['message']);
    const calls = list(message['tool_calls']).map(call => {
      const { name, arguments: args } = object(call['function']);
      return { name: text(name), arguments: text(args) };
    });
    return { finish: choice?.['finish_reason'] as string | undefined, text: text(message['content']), calls };
  },
  stream: events => {
    const choices = events.flatMap(event => list(event['choices']));
    const deltas = choices.map(choice => object(choice['delta']));
    const calls: { name: string; arguments: string }[] = [];
    for (const entry of deltas.flatMap(delta => list(delta['tool_calls']))) {
      const { name, arguments: args } = object(entry['function']);
      const index = Number(entry['index']);
      const known = calls[index] ?? { name: '', arguments: '' };
      calls[index] = { name: known.name + text(name), arguments: known.arguments + text(args) };
    }
    const finish = choices.map(choice => choice['finish_reason']).findLast(reason => typeof reason === 'string');
    return {
      finish,
      text: deltas.map(delta => text(delta['content'])).join(''),
      calls,
    };
  },
};

function seenResponse(response: Json): Pick<SeenAnswer, 'finish' | 'text' | 'calls'> {
  const output = list(response['output']);
  const status = response['status'];
  const reason = object(response['incomplete_details'])['reason'];
  const contents = output.filter(({ type }) => type === 'message').flatMap(item => list(item['content']));
  return {
    finish: typeof status !== 'string' || status === 'failed' ? undefined : [status, reason].filter(Boolean).join(' '),
    text: contents.map(part => text(part['text']) || text(part['refusal'])).join(''),
    calls: output
      .filter(({ type }) => type === 'function_call')
      .map(item => ({
        name: text(item['name']),
        arguments: text(item['arguments']),
        status: text(item['status']),
      })),
  };
}

const responses: Interface = {
  name: 'Responses',
  path: () => '/v1/responses',
  body: word => ({ input: word, tools: ['f', 'g'].map(name => ({ type: 'function', name, parameters })) }),
  whole: seenResponse,
  stream: events => seenResponse(object(events.findLast(event => event['response'] !== undefined)?.['response'])),
};

const messages: Interface = {
  name: 'Messages',
  path: () => '/v1/messages',
  body: word => ({
    max_tokens: 500,
    messages: [{ role: 'user', content: word }],
    tools: ['f', 'g'].map(name => ({ name, input_schema: parameters })),
  }),
  whole: answer => {
    const blocks = list(answer['content']);
    return {
      finish: answer['stop_reason'] as string | undefined,
      text: blocks.map(block => text(block['text'])).join(''),
      calls: blocks
        .filter(({ type }) => type === 'tool_use')
        .map(block => ({ name: text(block['name']), arguments: JSON.stringify(block['input']) })),
    };
  },
  stream: events => {
    const calls = new Map<unknown, { name: string; arguments: string }>();
    for (const event of events) {
      const block = object(event['content_block']);
      if (block['type'] === 'tool_use') calls.set(event['index'], { name: text(block['name']), arguments: '' });
      const call = calls.get(event['index']);
      if (call !== undefined) call.arguments += text(object(event['delta'])['partial_json']);
    }
    const ends = events.map(event => object(event['delta'])['stop_reason']);
    return {
      finish: ends.find(reason => typeof reason === 'string'),
      text: events.map(event => text(object(event['delta'])['text'])).join(''),
      calls: [...calls.values()],
    };
  },
};

function seenGemini(chunks: readonly Json[]): Pick<SeenAnswer, 'finish' | 'text' | 'calls'> {
  const candidates = chunks.flatMap(chunk => list(chunk['candidates']));
  const parts = candidates.flatMap(candidate => list(object(candidate['content'])['parts']));
  return {
    finish: candidates.map(({ finishReason }) => finishReason as string | undefined).findLast(Boolean),
    text: parts.map(part => text(part['text'])).join(''),
    calls: parts
      .filter(part => part['functionCall'] !== undefined)
      .map(part => object(part['functionCall']))
      .map(call => ({ name: text(call['name']), arguments: JSON.stringify(call['args']) })),
  };
}

const gemini: Interface = {
  name: 'Gemini',
  path: (model, streamed) =>
    `/v1beta/models/${model}:${streamed ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  body: word => ({
    contents: [{ role: 'user', parts: [{ text: word }] }],
    tools: [{ functionDeclarations: ['f', 'g'].map(name => ({ name, parametersJsonSchema: parameters })) }],
  }),
  whole: answer => seenGemini([answer]),
  stream: seenGemini,
};

/** The four interfaces of text. */
export const interfaces: readonly Interface[] = [chat, responses, messages, gemini];

/** Returns the code of an error; in Google's form it is the reason. */
function readCode(error: Json): string {
  const [detail] = list(error['details']);
  return text(detail?.['reason']) || text(error['code']);
}

/** Requests the answer with this word. */
export async function askFor(
  gateway: Gateway,
  requested: { readonly face: Interface; readonly model: string; readonly word: string; readonly streamed: boolean },
  more: Json = {},
): Promise<SeenAnswer> {
  const { face, model, word, streamed } = requested;
  const named = face.name === 'Gemini' ? {} : { model, stream: streamed };
  const response = await post(gateway, face.path(model, streamed), { ...named, ...face.body(word), ...more });
  const raw = await response.text();
  const facts = { status: response.status, requestId: response.headers.get('x-request-id') ?? '' };
  if (!streamed || response.status !== 200) {
    const answer = JSON.parse(raw) as Json;
    const error = answer['error'] == null ? undefined : readCode(object(answer['error']));
    return { ...facts, ...face.whole(answer), error, said: answer };
  }
  const events = raw
    .split('\n\n')
    .map(frame => /^data: (.*)$/m.exec(frame)?.[1])
    .filter(data => data !== undefined && data !== '[DONE]')
    .map(data => JSON.parse(data ?? '{}') as Json);
  const failed = events.find(event => event['error'] != null);
  const error = failed === undefined ? undefined : readCode(object(failed['error']));
  return { ...facts, ...face.stream(events), error, said: events };
}

/** Returns the interface with that name. */
export function findInterface(name: string): Interface {
  return interfaces.find(face => face.name === name) ?? expect.fail(name);
}
