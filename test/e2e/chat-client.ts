/** A Chat client without a library, so that tests see every byte. */
import type { Gateway } from '../gateway.ts';

/** A request body; the model and the messages have defaults. */
export type ChatBody = Readonly<Record<string, unknown>>;

/** How to send a request. */
export interface SendOptions {
  /** A credential; absent: the gateway's first API key; null: none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** A call of a tool in an answer. */
export interface ToolCall {
  readonly id: string;
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

/** The envelope of docs/errors.md "The envelope". */
export interface ChatError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
  readonly status_code: number;
  readonly id: string;
  readonly tip: string | null;
  readonly docs: string | null;
  readonly support: string | null;
  readonly community: Readonly<Record<string, string>> | null;
}

/** Usage as Chat shows it, with the gateway's cost in dollars. */
export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number; readonly cache_write_tokens?: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
  readonly cost: number;
}

/** The members of an answer that tests read; an error has only `error`. */
export interface ChatAnswer {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly service_tier?: string;
  readonly choices: readonly {
    readonly index: number;
    readonly finish_reason: string;
    readonly logprobs: unknown;
    readonly message: {
      readonly role: string;
      readonly content: string | null;
      readonly refusal: string | null;
      readonly reasoning_content?: string;
      readonly tool_calls?: readonly ToolCall[];
    };
  }[];
  readonly usage: ChatUsage;
  readonly error: ChatError;
}

/** One chunk of a stream. */
export interface ChatChunk {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly service_tier?: string;
  readonly choices: readonly {
    readonly index: number;
    readonly finish_reason: string | null;
    readonly logprobs?: unknown;
    readonly delta: {
      readonly role?: string;
      readonly content?: string | null;
      readonly refusal?: string | null;
      readonly reasoning_content?: string;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly type?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
  }[];
  readonly usage?: ChatUsage | null;
  readonly error?: ChatError;
}

/** A whole answer or an error. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: ChatAnswer;
  /** Text of choice 0; '' if it has none. */
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly finish: string | undefined;
  /** From the request to the end of the answer. */
  readonly ms: number;
}

/** A stream, read to its end or until the client disconnected. */
export interface Streamed {
  readonly status: number;
  readonly headers: Headers;
  /** Everything received. */
  readonly raw: string;
  readonly chunks: readonly ChatChunk[];
  /** Text of choice 0. */
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly finish: string | undefined;
  readonly usage: ChatUsage | undefined;
  /** The stream's error, or the HTTP error's. */
  readonly error: ChatError | undefined;
  /** Whether the stream ended with `[DONE]`. */
  readonly done: boolean;
  /** Times from the request to the first chunk and, in `ms`, to the end. */
  readonly firstMs: number;
  readonly ms: number;
}

/** The model that most tests use: PAYG with every feature. */
export const payg = 'sim/large';

/** A body with one user message. */
export function ask(text: string, more: ChatBody = {}): ChatBody {
  return { model: payg, messages: [{ role: 'user', content: text }], ...more };
}

/** Posts a body (an object as JSON, a string unchanged) to a path of the gateway. */
export function post(gateway: Gateway, path: string, body: unknown, options: SendOptions = {}): Promise<Response> {
  const key = options.key === undefined ? gateway.apiKey : options.key;
  return fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...options.headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** Sends a request for a whole answer. */
export async function complete(gateway: Gateway, body: ChatBody | string, options?: SendOptions): Promise<Answer> {
  const began = performance.now();
  const response = await post(gateway, '/v1/chat/completions', body, options);
  const answer = (await response.json()) as ChatAnswer;
  const choice = answer.choices?.[0];
  return {
    status: response.status,
    headers: response.headers,
    body: answer,
    text: choice?.message.content ?? '',
    calls: choice?.message.tool_calls ?? [],
    finish: choice?.finish_reason,
    ms: performance.now() - began,
  };
}

/** Sends a request for a stream with usage, and reads the stream; the client disconnects when `until` says so. */
export async function stream(
  gateway: Gateway,
  body: ChatBody,
  options: SendOptions & { readonly until?: (chunks: readonly ChatChunk[]) => boolean } = {},
): Promise<Streamed> {
  const began = performance.now();
  const leave = new AbortController();
  const response = await post(
    gateway,
    '/v1/chat/completions',
    { stream: true, stream_options: { include_usage: true }, ...body },
    { ...options, signal: AbortSignal.any([leave.signal, ...(options.signal === undefined ? [] : [options.signal])]) },
  );
  if (!(response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
    const { error } = (await response.json()) as ChatAnswer;
    return { ...collected(response, '', began, began), error };
  }
  let raw = '';
  let first = began;
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    if (raw === '') first = performance.now();
    raw += decoder.decode(bytes as Uint8Array, { stream: true });
    if (options.until?.(readChunks(raw)) === true) break;
  }
  leave.abort();
  return collected(response, raw, began, first);
}

function readData(raw: string): string[] {
  // A comment that keeps the stream alive is a separate line before a frame.
  const whole = raw.slice(0, raw.lastIndexOf('\n\n') + 2).replaceAll(/^:.*\n/gm, '');
  return whole.split('\n\n').flatMap(frame => (frame.startsWith('data: ') ? [frame.slice('data: '.length)] : []));
}

function readChunks(raw: string): ChatChunk[] {
  return readData(raw)
    .filter(data => data !== '[DONE]')
    .map(data => JSON.parse(data) as ChatChunk);
}

function collected(response: Response, raw: string, began: number, first: number): Streamed {
  const chunks = readChunks(raw);
  const choices = chunks.flatMap(chunk => chunk.choices ?? []).filter(({ index }) => index === 0);
  return {
    status: response.status,
    headers: response.headers,
    raw,
    chunks,
    text: choices.map(({ delta }) => delta.content ?? '').join(''),
    calls: readCalls(choices),
    finish: choices.find(choice => choice.finish_reason != null)?.finish_reason ?? undefined,
    usage: chunks.find(chunk => chunk.usage != null)?.usage ?? undefined,
    error: chunks.find(chunk => chunk.error !== undefined)?.error,
    done: raw.endsWith('data: [DONE]\n\n'),
    firstMs: first - began,
    ms: performance.now() - began,
  };
}

function readCalls(choices: readonly ChatChunk['choices'][number][]): ToolCall[] {
  const calls: { id: string; type: string; function: { name: string; arguments: string } }[] = [];
  for (const { index, id, type, function: part } of choices.flatMap(({ delta }) => delta.tool_calls ?? [])) {
    calls[index] ??= { id: '', type: '', function: { name: '', arguments: '' } };
    const call = calls[index];
    call.id += id ?? '';
    call.type += type ?? '';
    call.function.name += part?.name ?? '';
    call.function.arguments += part?.arguments ?? '';
  }
  return calls;
}
