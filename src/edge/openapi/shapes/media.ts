import * as z from 'zod';
import { embeddingsRequestSchema } from '../../../codecs/embeddings/decode-request.ts';
import { rerankRequestSchema } from '../../../codecs/rerank/decode-request.ts';
import { editSchema, generationSchema } from '../../../codecs/images/request-schema.ts';
import { named } from '../json-schema.ts';
import { errorObject } from './errors.ts';
import { fieldTexts } from './field-texts.ts';
import { count, dollars } from './fields.ts';

/** Images and embeddings. Source: docs/interfaces/images.md. */

/** The body of an image generation. */
export const imageGenerationRequest = named('ImageGenerationRequest', generationSchema, {
  ...fieldTexts,
  n: 'How many images: 1 to 10.',
});
/** The body of an image edit. */
export const imageEditRequest = named('ImageEditRequest', editSchema, {
  ...fieldTexts,
  n: 'How many images: 1 to 10.',
});
/** The body of an embeddings request. */
export const embeddingsRequest = named('EmbeddingsRequest', embeddingsRequestSchema, {
  ...fieldTexts,
  input: 'A text, token ids, or up to 2,048 of them.',
});

/** The body of a rerank request. */
export const rerankRequest = named('RerankRequest', rerankRequestSchema, {
  ...fieldTexts,
  query: 'The query that the documents are compared with.',
  documents: 'Texts, or objects with a `text`.',
  top_n: 'The most results; absent: all documents.',
  return_documents: 'Whether each result contains its document.',
});

const image = named(
  'ImageResult',
  z.looseObject({
    created: z.int().describe('Unix time in seconds.'),
    data: z.array(
      z.looseObject({
        url: z.string().optional().describe('The address of the image, which works for an hour and needs no key.'),
        b64_json: z.string().optional().describe('The image in base64.'),
        revised_prompt: z.string().describe('The prompt that the model used.'),
      }),
    ),
  }),
);
const taskShape = {
  task_id: z.string(),
  object: z.literal('image.task'),
  status: z.enum(['queued', 'in_progress', 'completed', 'failed']),
  created: z.int().describe('Unix time in seconds.'),
  model: z.string(),
};

/** Answers with images and vectors. */
export const media = {
  image,
  newTask: named('ImageTask', z.object(taskShape)),
  task: named(
    'ImageTaskResult',
    z.object({
      ...taskShape,
      result: image.nullable().describe('The images of a completed task; else null.'),
      error: errorObject.nullable().describe('The error of a failed task; else null.'),
    }),
  ),
  ranking: named(
    'Ranking',
    z.object({
      id: z.string(),
      model: z.string(),
      results: z
        .array(
          z.object({
            index: count.describe('The index of the document in the request.'),
            relevance_score: z.number().describe('How relevant the document is; higher is more relevant.'),
            document: z.object({ text: z.string() }).optional().describe('The document; only with `return_documents`.'),
          }),
        )
        .describe('Best first.'),
      usage: z.object({
        total_tokens: count,
        search_units: count.describe('Searches of up to 100 documents.'),
        cost: dollars.describe('Dollars that were debited.'),
      }),
    }),
  ),
  embeddings: named(
    'EmbeddingList',
    z.object({
      object: z.literal('list'),
      data: z.array(
        z.object({
          object: z.literal('embedding'),
          index: count.describe('The index of the input in the request.'),
          embedding: z
            .union([z.array(z.number()), z.string()])
            .describe('Numbers, or little-endian float32 in base64.'),
        }),
      ),
      model: z.string(),
      usage: z.object({
        prompt_tokens: count,
        total_tokens: count,
        cost: dollars.describe('Dollars that were debited.'),
      }),
    }),
  ),
};
