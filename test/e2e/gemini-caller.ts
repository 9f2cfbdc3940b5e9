/** A client of Gemini's interface without a library, so that tests see every byte. */
import type { Gateway } from '../gateway.ts';

type Json = Readonly<Record<string, unknown>>;

/** A part of an answer. */
export interface GeminiPart {
  readonly text?: string;
  readonly thought?: boolean;
  readonly thoughtSignature?: string;
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: Json };
}

/** An answer, a chunk of a stream, or an error. */
export interface GeminiChunk extends Json {
  readonly candidates?: readonly ({
    readonly content?: { readonly role: string; readonly parts?: readonly GeminiPart[] };
    readonly finishReason?: string;
    readonly index: number;
  } & Json)[];
  readonly usageMetadata?: Readonly<Record<string, number>>;
  readonly error?: GeminiError;
}

/** Google's envelope. */
export interface GeminiError {
  readonly code: number;
  readonly message: string;
  readonly status: string;
  /** Absent in the envelopes of other interfaces. */
  readonly details?: readonly (Json & { readonly metadata?: Readonly<Record<string, string>> })[];
}

/** How to send a request. */
export interface GeminiOptions {
  /** Absent: the gateway's first API key in `x-goog-api-key`; null: none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: 'GET' | 'POST';
}

/** What came back. */
export interface GeminiReply {
  readonly status: number;
  readonly headers: Headers;
  readonly raw: string;
  /** The chunks of a stream; a body that is one object is a single chunk. */
  readonly chunks: readonly GeminiChunk[];
  /** The error of the answer, or of the stream's last chunk. */
  readonly error: GeminiError | undefined;
  /** The error's reason: the gateway's code. */
  readonly reason: unknown;
  readonly parts: readonly GeminiPart[];
  /** The text without thoughts. */
  readonly text: string;
  readonly finish: string | undefined;
  readonly ms: number;
}

/** Sends a request to a path of the interface, and reads the answer to its end. */
export async function askGemini(
  gateway: Pick<Gateway, 'url' | 'apiKey'>,
  path: string,
  body?: unknown,
  { key = gateway.apiKey, headers = {}, method = body === undefined ? 'GET' : 'POST' }: GeminiOptions = {},
): Promise<GeminiReply> {
  const began = performance.now();
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === null ? {} : { 'x-goog-api-key': key }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const raw = await response.text();
  const ms = performance.now() - began;
  return { status: response.status, headers: response.headers, raw, ms, ...readGemini(raw) };
}

/** Reads an answer: events, an array or one object. */
export function readGemini(
  raw: string,
): Pick<GeminiReply, 'chunks' | 'error' | 'reason' | 'parts' | 'text' | 'finish'> {
  const isSse = raw.trimStart().startsWith('data: ');
  const whole = isSse || raw.trim() === '' ? [] : (JSON.parse(raw) as GeminiChunk | GeminiChunk[]);
  const events = raw.split('\n').filter(line => line.startsWith('data: '));
  const chunks = isSse ? events.map(line => JSON.parse(line.slice('data: '.length)) as GeminiChunk) : [whole].flat();
  const error = chunks.at(-1)?.error;
  const candidates = chunks.flatMap(chunk => chunk.candidates ?? []);
  const parts = candidates.flatMap(({ content }) => content?.parts ?? []);
  return {
    chunks,
    error,
    reason: error?.details?.[0]?.['reason'],
    parts,
    text: parts.map(part => (part.thought === true ? '' : (part.text ?? ''))).join(''),
    finish: candidates.map(({ finishReason }) => finishReason).findLast(reason => reason !== undefined),
  };
}

/** Returns the path of a method of a model. */
export function geminiPath(model: string, method = 'generateContent'): string {
  return `/v1beta/models/${model}:${method}`;
}
