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
  query: 'What the documents are compared with.',
  documents: 'Texts, or objects with a `text`.',
  top_n: 'How many results there are at most; absent: all documents.',
  return_documents: 'Whether each result has its document.',
});

const image = named(
  'ImageResult',
  z.looseObject({
    created: z.int().describe('Unix time in seconds.'),
    data: z.array(
      z.looseObject({
        url: z.string().optional().describe('Where the image is for an hour, without a key.'),
        b64_json: z.string().optional().describe('The image in base64.'),
        revised_prompt: z.string().describe('The prompt as the model read it.'),
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
      result: image.nullable().describe('Of a completed task; else null.'),
      error: errorObject.nullable().describe('Of a failed task; else null.'),
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
            index: count.describe('Which document it is.'),
            relevance_score: z.number().describe('How well it fits.'),
            document: z.object({ text: z.string() }).optional().describe('With `return_documents`.'),
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
          index: count.describe('Which input it belongs to.'),
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
