/**
 * A server with Gemini's generateContent, written from the public schema with the types of the official client. A second gateway with built-in models answers the requests. It refuses what Google
 * refuses: members that are not in the schema, results without calls, signatures that it has not made.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SseReader } from '../../src/lib/sse.ts';
import { type ChatChunk, GeminiAnswer } from './gemini-answer.ts';
import { toChatRequest, type GenerateContentBody, InvalidArgument } from './gemini-request.ts';

/** The gateway that answers the requests. */
export interface Behind {
  readonly url: string;
  readonly apiKey: string;
}

/** The API key that the server accepts. */
export const geminiKey = 'AIza-key-of-the-gemini-server';

const path = /^\/v1beta\/models\/([^/:]+):(streamGenerateContent|generateContent)(\?alt=sse)?$/;
/** The built-in models, by the names under which this server offers them. */
const models: Readonly<Record<string, string>> = {
  'gemini-2.5-flash': 'sim/large',
  'gemini-3-flash': 'sim/large',
  'gemini-2.5-flash-lite': 'sim/small',
};

/** A running server. */
export class GeminiServer {
  /** The received bodies, oldest first. */
  readonly requests: GenerateContentBody[] = [];
  readonly #server: Server;

  private constructor(behind: Behind) {
    this.#server = createServer((request, response) => {
      void this.#answer(request, response, behind).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  /** Starts the server on a free port. */
  static async start(behind: Behind): Promise<GeminiServer> {
    const server = new GeminiServer(behind);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  /** The base URL for the official client. */
  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse, behind: Behind): Promise<void> {
    const [, name = '', method, sse] = path.exec(decodeURIComponent(request.url ?? '')) ?? [];
    const model = models[name];
    if (request.headers['x-goog-api-key'] !== geminiKey) {
      refuse(response, 400, 'API key not valid. Please pass a valid API key.', 'API_KEY_INVALID');
      return;
    }
    if (model === undefined) return refuse(response, 404, `models/${name} is not found for API version v1beta`);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = JSON.parse(Buffer.concat(parts).toString()) as GenerateContentBody;
    this.requests.push(body);
    let requested: Record<string, unknown>;
    try {
      requested = toChatRequest(body, model, name.startsWith('gemini-3'));
    } catch (error) {
      if (error instanceof InvalidArgument) return refuse(response, 400, error.message);
      throw error;
    }
    const includeThoughts = body.generationConfig?.thinkingConfig?.includeThoughts === true;
    const responseId = `r-${Math.random().toString(36).slice(2)}`;
    const answer = new GeminiAnswer({
      model: name,
      responseId,
      includeThoughts,
      signsTexts: name.startsWith('gemini-3'),
    });
    await pass(response, { behind, requested, answer, whole: method === 'generateContent' || sse === undefined });
  }
}

function refuse(response: ServerResponse, code: number, message: string, reason?: string): void {
  const details = reason === undefined ? [] : [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason }];
  const status = code === 400 ? 'INVALID_ARGUMENT' : code === 404 ? 'NOT_FOUND' : 'UNAVAILABLE';
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: { code, message, status, details } }));
}

interface Passing {
  readonly behind: Behind;
  readonly requested: Record<string, unknown>;
  readonly answer: GeminiAnswer;
  readonly whole: boolean;
}

/** Calls the second gateway and converts its stream. If the caller disconnects, the call ends too. */
async function pass(response: ServerResponse, { behind, requested, answer, whole }: Passing): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  try {
    const inner = await fetch(`${behind.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${behind.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(requested),
      signal: gone.signal,
    });
    if (inner.status !== 200 || inner.body === null) {
      const { error } = (await inner.json()) as { error: { message: string } };
      return refuse(response, inner.status === 502 ? 503 : inner.status, error.message);
    }
    const frames: unknown[] = [];
    const reader = new SseReader(10_000_000);
    response.writeHead(200, { 'content-type': whole ? 'application/json' : 'text/event-stream' });
    const send = (frame: unknown): void => {
      if (whole) frames.push(frame);
      else response.write(`data: ${JSON.stringify(frame)}\r\n\r\n`);
    };
    for await (const bytes of inner.body) {
      for (const { data } of reader.push(bytes)) {
        if (data === '[DONE]') continue;
        const ready = toFrames(JSON.parse(data) as ChatChunk, answer);
        for (const frame of ready) send(frame);
      }
    }
    response.end(whole ? JSON.stringify(frames) : undefined);
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

function toFrames(chunk: ChatChunk, answer: GeminiAnswer): unknown[] {
  if (chunk.error === undefined) return answer.push(chunk);
  const { message, type } = chunk.error;
  const isRefusal = type === 'invalid_request_error';
  return [
    {
      error: isRefusal
        ? { code: 400, message, status: 'INVALID_ARGUMENT' }
        : { code: 503, message, status: 'UNAVAILABLE' },
    },
  ];
}
