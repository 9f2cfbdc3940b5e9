import * as z from 'zod';
import { geminiBatchEmbedSchema, geminiEmbedSchema } from '../../../codecs/gemini/embed-request.ts';
import { geminiCountSchema, geminiRequestSchema } from '../../../codecs/gemini/request-schema.ts';
import { named } from '../json-schema.ts';
import { anyObject, count, dollars } from './fields.ts';
import { models } from './models.ts';

/** Gemini's interface. Providers may add members to answers. Source: docs/interfaces/gemini.md. */

const texts = {
  contents: 'The conversation: `user` and `model` in turn, each with parts.',
  systemInstruction: 'Instructions before the conversation, as parts of text.',
  tools:
    '`functionDeclarations`: the functions that the model may call. Tools of Google’s own only with a Google provider.',
  toolConfig: '`functionCallingConfig`: whether and which functions are called.',
  generationConfig: 'How the answer is made: limits, sampling, schema, thinking.',
  safetySettings: 'Only for a Google provider; dropped with a warning elsewhere.',
  cachedContent: 'Only for a Google provider.',
  labels: 'Only for a Google provider.',
  serviceTier: '`standard`, `flex` or `priority`, if the model has it.',
  generateContentRequest: 'The whole request that is counted, instead of `contents`.',
};
/** The body of a request. */
export const geminiRequest = named('GenerateContentRequest', geminiRequestSchema, texts);
/** The body of a request to count tokens. */
export const geminiCountRequest = named('GeminiCountTokensRequest', geminiCountSchema, texts);

const embedTexts = {
  content: 'What to embed: parts of text.',
  taskType: 'What the vector is for. Only for a Google provider; dropped with a warning elsewhere.',
  title: 'The title of the text. Only for a Google provider; dropped with a warning elsewhere.',
  outputDimensionality: 'The length of the vectors, for models that support it.',
};
/** The body of a request for the vector of one text. */
export const geminiEmbedRequest = named('EmbedContentRequest', geminiEmbedSchema, embedTexts);
/** The body of a request for the vectors of several texts. */
export const geminiBatchEmbedRequest = named('BatchEmbedContentsRequest', geminiBatchEmbedSchema, {
  requests: 'A request of `embedContent` for each text. The model in the path counts, and all have the same length.',
});

const embedding = z.object({ values: z.array(z.number()) });
const embedUsage = z.object({
  promptTokenCount: count,
  totalTokenCount: count,
  cost: dollars.describe('Dollars that were debited.'),
});

const candidate = z.looseObject({
  content: z.looseObject({ role: z.literal('model'), parts: z.array(anyObject) }),
  finishReason: z.string().optional().describe('`STOP`, `MAX_TOKENS`, `SAFETY`, or a Google provider’s own reason.'),
  index: count,
});

const model = z.looseObject({
  name: z.string().describe('`models/` and the id.'),
  displayName: z.string(),
  description: z.string().optional(),
  inputTokenLimit: count.optional(),
  outputTokenLimit: count.optional(),
  supportedGenerationMethods: z.array(z.string()),
  thinking: z.boolean(),
  pricing: models.model.shape.pricing,
  capabilities: models.model.shape.capabilities,
});

const answer = named(
  'GenerateContentResponse',
  z.looseObject({
    candidates: z.array(candidate).optional(),
    promptFeedback: anyObject.optional().describe('Why the prompt was blocked.'),
    usageMetadata: z
      .looseObject({
        promptTokenCount: count.describe('All input tokens, cached ones included.'),
        candidatesTokenCount: count.describe('Output tokens without thoughts.'),
        totalTokenCount: count,
        cachedContentTokenCount: count.optional(),
        thoughtsTokenCount: count.optional(),
        cost: dollars.describe('Dollars that were debited.'),
      })
      .optional(),
    modelVersion: z.string().describe('The provider’s name of the model, or the listed id.'),
    responseId: z.string(),
  }),
);

/** Answers of Gemini's interface. */
export const gemini = {
  answer,
  chunks: named('GenerateContentChunks', z.array(answer)),
  count: named('GeminiCountTokensAnswer', z.object({ totalTokens: count.describe('All input tokens.') })),
  embedding: named('EmbedContentResponse', z.object({ embedding, usageMetadata: embedUsage })),
  embeddings: named(
    'BatchEmbedContentsResponse',
    z.object({ embeddings: z.array(embedding).describe('In the order of the requests.'), usageMetadata: embedUsage }),
  ),
  model: named('GeminiModel', model),
  list: named(
    'GeminiModelList',
    z.object({
      models: z.array(model),
      nextPageToken: z.string().optional().describe('The `pageToken` of the next page; absent: there is none.'),
    }),
  ),
} as const;
