import type { JsonObject } from '../codec.ts';

/** What a Gemini upstream is sent: type aliases, so that the compiler takes them for plain JSON. Source: the public schema of generateContent (v1beta), wire.md B4. */

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

/** What a tool answered. */
export type FunctionResponse = {
  readonly id?: string;
  readonly name: string;
  readonly response: JsonObject;
  readonly parts?: { readonly inlineData: InlineData }[];
};

/** What one side said in a row. */
export type GeminiContent = {
  readonly role: 'user' | 'model';
  readonly parts: GeminiPart[];
};
