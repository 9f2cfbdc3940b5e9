import type { JsonObject } from '../codec.ts';

/**
 * The body for a Gemini upstream. These are type aliases, not interfaces, so that the compiler accepts them as JSON. Source: the public
 * schema of generateContent (v1beta), docs/providers.md "The Gemini protocol".
 */

/** Bytes that are inside the message. */
export type InlineData = {
  readonly mimeType: string;
  /** Base64. */
  readonly data: string;
};

/** One piece of a content; a signature belongs to the part that it is in. */
export type GeminiPart = {
  readonly text?: string;
  readonly thought?: true;
  readonly thoughtSignature?: string;
  readonly inlineData?: InlineData;
  readonly fileData?: { readonly fileUri: string; readonly mimeType?: string };
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: JsonObject };
  readonly functionResponse?: FunctionResponse;
};

/** A tool's result. */
export type FunctionResponse = {
  readonly id?: string;
  readonly name: string;
  readonly response: JsonObject;
  readonly parts?: { readonly inlineData: InlineData }[];
};

/** A message: consecutive parts of the user or the model. */
export type GeminiContent = {
  readonly role: 'user' | 'model';
  readonly parts: GeminiPart[];
};
