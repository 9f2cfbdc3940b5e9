import { generationErrors, generationHeaders, type Operation, pathId, query, readErrors } from '../operation.ts';
import {
  gemini,
  geminiBatchEmbedRequest,
  geminiCountRequest,
  geminiEmbedRequest,
  geminiRequest,
} from '../shapes/gemini.ts';

/** Gemini's interface. */

const model = pathId('model', 'The id of the model, which may contain slashes.');
const contents = [{ role: 'user', parts: [{ text: 'Say hello in five words.' }] }];
const content = { parts: [{ text: 'A barrier where one pays.' }] };
const sample = 'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"index":0}]}\n\n';
const body = {
  schema: geminiRequest,
  examples: {
    plain: { summary: 'A question', value: { contents, generationConfig: { maxOutputTokens: 64 } } },
    system: {
      summary: 'A question with a system text',
      value: { contents, systemInstruction: { parts: [{ text: 'Be brief.' }] } },
    },
  },
};
const shared = { access: 'api_key', errors: generationErrors, errorShape: 'google', tag: 'Gemini' } as const;

/** The operations of Gemini's interface. */
export const geminiOperations: readonly Operation[] = [
  {
    ...shared,
    method: 'post',
    path: '/v1beta/models/{model}:generateContent',
    id: 'generateContent',
    summary: 'Answer a conversation (Gemini)',
    parameters: [model, ...generationHeaders],
    body,
    answers: { 200: { description: 'The answer.', schema: gemini.answer, headers: ['x-tollgate-cost'] } },
  },
  {
    ...shared,
    method: 'post',
    path: '/v1beta/models/{model}:streamGenerateContent',
    id: 'streamGenerateContent',
    summary: 'Answer a conversation in a stream (Gemini)',
    description: 'Without `alt=sse` the chunks are the elements of a JSON array that grows.',
    parameters: [model, query('alt', '`sse`: the chunks are events.', { enum: ['sse'] }), ...generationHeaders],
    body,
    answers: {
      200: {
        schema: gemini.chunks,
        description: 'The chunks: each is a complete response with what is new, and the last one has the usage.',
        others: { 'text/event-stream': { description: 'Chunks of the answer.', example: sample } },
      },
    },
  },
  {
    ...shared,
    method: 'post',
    path: '/v1beta/models/{model}:countTokens',
    id: 'countGeminiTokens',
    summary: 'Count the tokens of a request (Gemini)',
    description: 'Free, and counted in no limit.',
    parameters: [model],
    body: { schema: geminiCountRequest, examples: { plain: { summary: 'A question', value: { contents } } } },
    answers: { 200: { description: 'The count.', schema: gemini.count } },
  },
  {
    ...shared,
    method: 'post',
    path: '/v1beta/models/{model}:embedContent',
    id: 'embedContent',
    summary: 'Make the vector of a text (Gemini)',
    parameters: [model, ...generationHeaders],
    body: { schema: geminiEmbedRequest, examples: { plain: { summary: 'A text', value: { content } } } },
    answers: { 200: { description: 'The vector.', schema: gemini.embedding, headers: ['x-tollgate-cost'] } },
  },
  {
    ...shared,
    method: 'post',
    path: '/v1beta/models/{model}:batchEmbedContents',
    id: 'batchEmbedContents',
    summary: 'Make the vectors of several texts (Gemini)',
    parameters: [model, ...generationHeaders],
    body: {
      schema: geminiBatchEmbedRequest,
      examples: { plain: { summary: 'Two texts', value: { requests: [{ content }, { content }] } } },
    },
    answers: { 200: { description: 'The vectors.', schema: gemini.embeddings, headers: ['x-tollgate-cost'] } },
  },
  {
    ...shared,
    method: 'get',
    path: '/v1beta/models',
    id: 'listGeminiModels',
    summary: 'List the models that the key may use (Gemini)',
    access: 'any_key',
    parameters: [
      query('pageSize', 'The most models of the page.', { type: 'integer', minimum: 1, maximum: 1000, default: 50 }),
      query('pageToken', 'The `nextPageToken` of the page before.'),
    ],
    answers: { 200: { description: 'The models.', schema: gemini.list } },
    errors: readErrors,
  },
  {
    ...shared,
    method: 'get',
    path: '/v1beta/models/{model}',
    id: 'getGeminiModel',
    summary: 'Read a model (Gemini)',
    access: 'any_key',
    parameters: [model],
    answers: { 200: { description: 'The model.', schema: gemini.model } },
    errors: readErrors,
  },
];
