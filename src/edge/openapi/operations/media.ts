import { generationErrors, generationHeaders, type Operation, pathId, readErrors } from '../operation.ts';
import { embeddingsRequest, imageEditRequest, imageGenerationRequest, media, rerankRequest } from '../shapes/media.ts';

const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const costHeaders = [
  'x-tollgate-cost',
  'x-tollgate-route',
  'x-tollgate-warnings',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
];
const images = {
  200: { description: 'The images.', schema: media.image, headers: costHeaders },
  202: { description: 'With `async: true`: the task.', schema: media.newTask },
};

/** The rerank operation under its two paths: Cohere's client uses `/v2/rerank`. */
const rerank = [
  ['/v1/rerank', 'rerank'],
  ['/v2/rerank', 'rerankV2'],
].map(
  ([path = '', id = '']): Operation => ({
    method: 'post',
    path,
    id,
    tag: 'Rerank',
    summary: 'Order documents by their relevance to a query',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: rerankRequest,
      examples: {
        plain: {
          summary: 'Two documents',
          value: {
            model: 'sim/rerank',
            query: 'gates',
            documents: ['A toll gate', 'A bridge'],
            return_documents: true,
          },
        },
      },
    },
    answers: { 200: { description: 'The documents, best match first.', schema: media.ranking, headers: costHeaders } },
    errors: generationErrors,
  }),
);

/** The operations of images, embeddings and rankings. */
export const mediaOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/images/generations',
    id: 'generateImages',
    tag: 'Images',
    summary: 'Draw images',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: imageGenerationRequest,
      examples: {
        plain: {
          summary: 'An image, returned as a URL',
          value: { model: 'sim/image', prompt: 'A toll gate at dawn', size: '256x256' },
        },
        task: {
          summary: 'A task',
          value: { model: 'sim/image', prompt: 'A toll gate at dawn', size: '256x256', async: true },
        },
      },
    },
    answers: images,
    errors: generationErrors,
  },
  {
    method: 'post',
    path: '/v1/images/edits',
    id: 'editImages',
    tag: 'Images',
    summary: 'Edit an image',
    description: 'The first image is edited; further images are references.',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: imageEditRequest,
      examples: {
        plain: {
          summary: 'An image in base64',
          value: {
            model: 'sim/image-edit',
            images: [pixel],
            prompt: 'At night',
            size: '256x256',
            response_format: 'b64_json',
          },
        },
      },
      form: {
        type: 'object',
        description: 'The same fields as in JSON, with the images and the mask as files.',
        properties: {
          'image[]': { type: 'array', items: { type: 'string', format: 'binary' } },
          image: { type: 'string', format: 'binary' },
          mask: { type: 'string', format: 'binary' },
          prompt: { type: 'string' },
          model: { type: 'string' },
        },
        required: ['prompt'],
      },
    },
    answers: images,
    errors: generationErrors,
  },
  {
    method: 'get',
    path: '/v1/images/tasks/{id}',
    id: 'getImageTask',
    tag: 'Images',
    summary: 'Read a task',
    description: 'A task is stored for 24 hours.',
    access: 'api_key',
    parameters: [pathId('id', 'The task.')],
    answers: { 200: { description: 'The task, with its images when it is completed.', schema: media.task } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/images/files/{name}',
    id: 'getImageFile',
    tag: 'Images',
    summary: 'Read an image',
    description: 'The URL itself is the credential and is valid for one hour.',
    access: 'anyone',
    parameters: [pathId('name', 'The last path segment of an image’s `url`.')],
    answers: {
      200: {
        description: 'The image.',
        others: {
          'image/png': { description: 'A PNG.' },
          'image/webp': { description: 'A WebP.' },
          'image/jpeg': { description: 'A JPEG.' },
        },
      },
      304: { description: 'The client has it already (`if-none-match`).' },
    },
    errors: [404, 500, 503],
  },
  {
    method: 'post',
    path: '/v1/embeddings',
    id: 'createEmbeddings',
    tag: 'Embeddings',
    summary: 'Turn texts into vectors',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: embeddingsRequest,
      examples: {
        texts: { summary: 'Two texts', value: { model: 'sim/embed', input: ['A toll gate', 'A bridge'] } },
        base64: { summary: 'Base64', value: { model: 'sim/embed', input: 'A bridge', encoding_format: 'base64' } },
      },
    },
    answers: { 200: { description: 'The vectors.', schema: media.embeddings, headers: costHeaders } },
    errors: generationErrors,
  },
  ...rerank,
];
