import { chatCodec } from '../codecs/chat/index.ts';
import type { JsonObject, UpstreamCodec } from '../codecs/codec.ts';
import { completionsCodec } from '../codecs/completions/index.ts';
import { geminiCodec, givesOneAnswer } from '../codecs/gemini/index.ts';
import { answerToolName, messagesCodec } from '../codecs/messages/index.ts';
import { responsesCodec } from '../codecs/responses/index.ts';
import type { Authentication } from './authentication.ts';
import { type EmbeddingProtocol, geminiEmbeddings, openaiEmbeddings } from './http-embeddings.ts';

/** The parts that all upstreams of a wire protocol share. */
export interface UpstreamProtocol {
  readonly codec: UpstreamCodec;
  readonly authentication: Authentication;
  /** Returns the path below the base URL for a model, query included. `whole`: the answer is not streamed. */
  path(model: string, whole: boolean): string;
  /** The path below the base URL for the list of models, query included; undefined: there is no list. */
  readonly listPath: string | undefined;
  /** Returns whether a model is served in this protocol; absent: every model is. */
  serves?(model: string): boolean;
  /** Called with the body of an error. Returns another path for the model, which it takes from then on, if the error refuses the path; absent: there is none. */
  reroute?(model: string, whole: boolean, body: string): string | undefined;
  /** Returns an encoded request, with the headers of its protocol that the client sent, in the form that a cloud takes; absent: unchanged. */
  adapt?(body: JsonObject, headers: Readonly<Record<string, string>>): AdaptedRequest;
  /** Matches the tool names that the protocol accepts. Others are replaced in the request, and restored in the answer. */
  readonly toolName: RegExp;
  /** True if the protocol has no free-form tools. They are sent as functions with one string, `input`, and their calls are restored. */
  readonly lacksCustomTools?: true;
  /** The name of the tool whose call is the answer, if the codec sends an output schema as a tool; absent: it never does. */
  readonly answerTool?: string;
  /** True if answers may end with a pause, after which the upstream must be called again to continue. */
  readonly mayPause?: true;
  /**
   * Returns whether a model returns only one choice per call, so that `n` choices take `n` calls; absent: no model does.
   */
  givesOne?(model: string): boolean;
  /** Headers that are sent with every call, by their names in lower case. The client's and configured headers override them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The name of a header of which the client's and the configured value are both sent, separated by a comma. */
  readonly joinedHeader?: string;
  /** How embeddings are requested; absent: not supported. */
  readonly embeddings?: EmbeddingProtocol;
  /** The path below the base URL to rerank; absent: not supported. */
  readonly rerankPath?: string;
  /** How legacy completions are requested; absent: not supported. */
  readonly completions?: UpstreamProtocol;
}

/** A request in the form that a cloud takes. */
export interface AdaptedRequest {
  readonly body: JsonObject;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Legacy completions (older than Chat), which the same providers offer. */
const completionsProtocol: UpstreamProtocol = {
  codec: completionsCodec,
  toolName: /^$/,
  authentication: 'bearer',
  path: () => '/completions',
  listPath: '/models',
};

/** Chat Completions. The base URL ends in the version ("https://api.openai.com/v1"), as for the official client. */
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

/** Messages. The base URL has no version ("https://api.anthropic.com"), as for the official client. */
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

/** Responses. The base URL ends in the version ("https://api.openai.com/v1"), as for the official client. */
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

/** Gemini. The base URL has no version ("https://generativelanguage.googleapis.com"), as for the official client. */
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

/** Returns the name of a model for a path. The provider lists its models as "models/…". */
function modelPath(model: string): string {
  return encodeURIComponent(model.replace(/^models\//, ''));
}

/** The protocols by their names in the configuration; absent: not implemented. */
export const protocols: Readonly<Partial<Record<string, UpstreamProtocol>>> = {
  chat: chatProtocol,
  messages: messagesProtocol,
  responses: responsesProtocol,
  gemini: geminiProtocol,
};
