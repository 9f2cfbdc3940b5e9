import * as z from 'zod';
import { flag, integerIn, jsonObject, numberIn, object, someText, text } from '../schema.ts';

/**
 * The schema of a request in its normal form (`toNormalForm`). Unknown members stay in the checked value; null in an optional field means that it was not
 * sent. Source: docs/interfaces/gemini.md "Request".
 */

const blob = object({ mimeType: text.nullish(), data: text });
const fileData = object({ mimeType: text.nullish(), fileUri: someText });
const functionCall = object({ id: text.nullish(), name: someText, args: jsonObject.nullish() });
const functionResponse = object({
  id: text.nullish(),
  name: someText,
  response: jsonObject.nullish(),
  parts: z
    .array(object({ inlineData: blob.nullish(), fileData: fileData.nullish() }), 'must be an array of parts')
    .nullish(),
});
const part = object({
  text: text.nullish(),
  thought: flag.nullish(),
  thoughtSignature: text.nullish(),
  inlineData: blob.nullish(),
  fileData: fileData.nullish(),
  functionCall: functionCall.nullish(),
  functionResponse: functionResponse.nullish(),
});
const parts = z.array(part, 'must be an array of parts').nullish();
const role = z.string('must be a string').min(1, 'must be "user" or "model"').nullish();
const content = object({ role, parts });

const functionDeclaration = object({
  name: someText,
  description: text.nullish(),
  parameters: jsonObject.nullish(),
  parametersJsonSchema: jsonObject.nullish(),
});
const tool = object({
  functionDeclarations: z.array(functionDeclaration, 'must be an array of functions').nullish(),
});
const toolConfig = object({
  functionCallingConfig: object({
    mode: text.nullish(),
    allowedFunctionNames: z.array(someText, 'must be an array of names').nullish(),
  }).nullish(),
});

/** How an answer is made. */
export const generationConfigSchema = object({
  candidateCount: integerIn(1, 8).nullish(),
  stopSequences: z.array(text, 'must be an array of strings').nullish(),
  maxOutputTokens: integerIn(1).nullish(),
  temperature: numberIn(0, 2).nullish(),
  topP: numberIn(0, 1).nullish(),
  topK: integerIn(0).nullish(),
  seed: integerIn(-(2 ** 63), 2 ** 63).nullish(),
  presencePenalty: numberIn(-2, 2).nullish(),
  frequencyPenalty: numberIn(-2, 2).nullish(),
  responseMimeType: text.nullish(),
  responseSchema: jsonObject.nullish(),
  responseJsonSchema: jsonObject.nullish(),
  responseLogprobs: flag.nullish(),
  logprobs: integerIn(0, 20).nullish(),
  responseModalities: z.array(text, 'must be an array of strings').nullish(),
  thinkingConfig: object({
    includeThoughts: flag.nullish(),
    thinkingBudget: integerIn(-1).nullish(),
    thinkingLevel: text.nullish(),
  }).nullish(),
});

/** A request of generateContent, streamGenerateContent or countTokens. */
export const geminiRequestSchema = object({
  contents: z.array(content, 'must be an array of contents').min(1, 'must have at least one entry'),
  systemInstruction: content.nullish(),
  tools: z.array(tool, 'must be an array of tools').nullish(),
  toolConfig: toolConfig.nullish(),
  generationConfig: generationConfigSchema.nullish(),
  safetySettings: z.unknown().optional(),
  cachedContent: text.nullish(),
  labels: z.unknown().optional(),
  serviceTier: text.nullish(),
});

/** A request of countTokens: a conversation, or a whole request. */
export const geminiCountSchema = object({
  contents: z.array(content, 'must be an array of contents').nullish(),
  generateContentRequest: geminiRequestSchema.nullish(),
});

/** A checked request. */
export type GeminiRequest = z.output<typeof geminiRequestSchema>;
/** A checked content. */
export type GeminiClientContent = GeminiRequest['contents'][number];
/** A checked part. */
export type GeminiClientPart = NonNullable<GeminiClientContent['parts']>[number];
/** A checked tool. */
export type GeminiClientTool = NonNullable<GeminiRequest['tools']>[number];
