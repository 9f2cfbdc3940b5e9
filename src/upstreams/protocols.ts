import { chatCodec } from '../codecs/chat/index.ts';
import type { UpstreamCodec } from '../codecs/codec.ts';
import { completionsCodec } from '../codecs/completions/index.ts';
import { geminiCodec, givesOneAnswer } from '../codecs/gemini/index.ts';
import { answerToolName, messagesCodec } from '../codecs/messages/index.ts';
import { responsesCodec } from '../codecs/responses/index.ts';
import type { Authentication } from './authentication.ts';
import { type EmbeddingProtocol, geminiEmbeddings, openaiEmbeddings } from './http-embeddings.ts';

/** Shared by all upstreams of a wire protocol. */
export interface UpstreamProtocol {
  readonly codec: UpstreamCodec;
  readonly authentication: Authentication;
  /** Returns the path below the base URL for a model, query included. `whole`: not streamed. */
  path(model: string, whole: boolean): string;
  /** The path below the base URL for the list of models, query included. */
  readonly listPath: string;
  /** The tool names that it accepts; others are replaced on the way there and back. */
  readonly toolName: RegExp;
  /** Free-form tools are sent as functions with one string, `input`; their calls are restored. */
  readonly lacksCustomTools?: true;
  /** The tool whose call is the answer, if the codec sends a schema as one. Absent: it never does. */
  readonly answerTool?: string;
  /** Answers may end with a pause, after which the upstream expects to be called again to continue. */
  readonly mayPause?: true;
  /**
   * Returns whether a model gives only one answer per call, so that `n` answers take `n` calls. Absent: every model gives several.
   */
  givesOne?(model: string): boolean;
  /** Sent with every call, in lower case; the client's headers and configured ones override them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A header for which the client's and the configured values are both sent, joined. */
  readonly joinedHeader?: string;
  /** How embeddings are requested; absent: not supported. */
  readonly embeddings?: EmbeddingProtocol;
  /** The path below the base URL to rerank; absent: not supported. */
  readonly rerankPath?: string;
  /** How legacy completions are requested; absent: not supported. */
  readonly completions?: UpstreamProtocol;
}

/** Legacy completions (before Chat) of the same providers. */
const completionsProtocol: UpstreamProtocol = {
  codec: completionsCodec,
  toolName: /^$/,
  authentication: 'bearer',
  path: () => '/completions',
  listPath: '/models',
};

/** Chat Completions; the base URL ends in the version ("https://api.openai.com/v1"), as the official client takes it. */
export const chatProtocol: UpstreamProtocol = {
  codec: chatCodec,
  toolName: /^[a-zA-Z0-9_-]{1,64}$/,
  authentication: 'bearer',
  path: () => '/chat/completions',
  listPath: '/models',
  embeddings: openaiEmbeddings,
  rerankPath: '/rerank',
  completions: completionsProtocol,
};

/** Messages; the base URL has no version ("https://api.anthropic.com"), as the official client takes it. */
export const messagesProtocol: UpstreamProtocol = {
  codec: messagesCodec,
  toolName: /^[a-zA-Z0-9_-]{1,128}$/,
  authentication: 'xApiKey',
  path: () => '/v1/messages',
  listPath: '/v1/models?limit=1000',
  // The version that every model accepts with every feature.
  headers: { 'anthropic-version': '2023-06-01' },
  joinedHeader: 'anthropic-beta',
  lacksCustomTools: true,
  mayPause: true,
  givesOne: () => true,
  answerTool: answerToolName,
};

/** Responses; the base URL ends in the version ("https://api.openai.com/v1"), as the official client takes it. */
export const responsesProtocol: UpstreamProtocol = {
  codec: responsesCodec,
  toolName: /^[a-zA-Z0-9_-]{1,64}$/,
  authentication: 'bearer',
  path: () => '/responses',
  listPath: '/models',
  givesOne: () => true,
  embeddings: openaiEmbeddings,
  rerankPath: '/rerank',
};

/** Gemini; the base URL has no version ("https://generativelanguage.googleapis.com"), as the official client takes it. */
export const geminiProtocol: UpstreamProtocol = {
  codec: geminiCodec,
  toolName: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  authentication: 'xGoogApiKey',
  path: (model, whole) =>
    `/v1beta/models/${modelPath(model)}:${whole ? 'generateContent' : 'streamGenerateContent?alt=sse'}`,
  listPath: '/v1beta/models?pageSize=1000',
  lacksCustomTools: true,
  givesOne: givesOneAnswer,
  embeddings: geminiEmbeddings,
};

/** The name as a piece of a path; "models/…" is how the provider itself lists them. */
function modelPath(model: string): string {
  return encodeURIComponent(model.replace(/^models\//, ''));
}

/** The client of each protocol, by its name in the configuration; absent: there is none. */
export const protocols: Readonly<Partial<Record<string, UpstreamProtocol>>> = {
  chat: chatProtocol,
  messages: messagesProtocol,
  responses: responsesProtocol,
  gemini: geminiProtocol,
};
