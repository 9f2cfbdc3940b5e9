import type { JsonObject } from '../codec.ts';

/**
 * The body for a Gemini upstream. Type aliases, so that the compiler accepts them as plain JSON. Source: the public
 * schema of generateContent (v1beta), docs/providers.md "The Gemini protocol".
 */

/** Bytes in the message itself. */
export type InlineData = {
  readonly mimeType: string;
  /** Base64. */
  readonly data: string;
};

/** One piece of a content; a signature belongs to exactly its part. */
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

/** Consecutive output of one side. */
export type GeminiContent = {
  readonly role: 'user' | 'model';
  readonly parts: GeminiPart[];
};
