import { changeErrors, idempotencyHeader, type Operation, pathId, query, readErrors } from '../operation.ts';
import { batches, batchRequest, messageBatchRequest } from '../shapes/batches.ts';

/** Files and batches. */

const fileId = pathId('id', 'The file.');
const batchId = pathId('id', 'The batch.');
const line = JSON.stringify({
  custom_id: 'one',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'sim/small', messages: [{ role: 'user', content: 'One.' }] },
});

const files: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/files',
    id: 'uploadFile',
    tag: 'Batches',
    summary: 'Upload a file of requests',
    description: 'JSONL of up to 200 MB and 50,000 lines, kept for 30 days.',
    access: 'api_key',
    parameters: [idempotencyHeader],
    body: {
      examples: {},
      form: {
        type: 'object',
        properties: { file: { type: 'string', format: 'binary' }, purpose: { enum: ['batch'] } },
        required: ['file', 'purpose'],
      },
      formExample: { purpose: 'batch', file: `${line}\n` },
    },
    answers: { 200: { description: 'The file.', schema: batches.file } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/files',
    id: 'listFiles',
    tag: 'Batches',
    summary: 'List the files',
    access: 'api_key',
    parameters: [
      query('limit', 'The most files of the page.', { type: 'integer', minimum: 1, maximum: 10_000 }),
      query('after', 'The id of the last file of the previous page.'),
      query('order', '`desc`: newest first; `asc`: oldest first.', { enum: ['desc', 'asc'], default: 'desc' }),
      query('purpose', 'Only files of this purpose.'),
    ],
    answers: { 200: { description: 'A page of files.', schema: batches.files } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/files/{id}',
    id: 'getFile',
    tag: 'Batches',
    summary: 'Read the description of a file',
    access: 'api_key',
    parameters: [fileId],
    answers: { 200: { description: 'The file.', schema: batches.file } },
    errors: readErrors,
  },
  {
    method: 'delete',
    path: '/v1/files/{id}',
    id: 'deleteFile',
    tag: 'Batches',
    summary: 'Delete a file',
    access: 'api_key',
    parameters: [fileId],
    answers: { 200: { description: 'The file is deleted.', schema: batches.fileDeleted } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/files/{id}/content',
    id: 'getFileContent',
    tag: 'Batches',
    summary: 'Read the content of a file',
    access: 'api_key',
    parameters: [fileId],
    answers: { 200: { description: 'Its lines.', others: { 'application/jsonl': { description: 'JSON lines.' } } } },
    errors: readErrors,
  },
];

const openai: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/batches',
    id: 'createBatch',
    tag: 'Batches',
    summary: 'Run the requests of a file at half the price',
    description: 'Each item is a separate request. Its result is in the output file or in the error file.',
    access: 'api_key',
    parameters: [idempotencyHeader],
    body: {
      schema: batchRequest,
      examples: {
        chat: {
          summary: 'Chat Completions',
          value: { input_file_id: 'file_1', endpoint: '/v1/chat/completions', completion_window: '24h' },
        },
      },
    },
    answers: { 200: { description: 'The batch.', schema: batches.batch } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/batches',
    id: 'listBatches',
    tag: 'Batches',
    summary: 'List the batches',
    access: 'api_key',
    parameters: [
      query('limit', 'The most batches of the page.', { type: 'integer', minimum: 1, maximum: 100 }),
      query('after', 'The id of the last batch of the previous page.'),
    ],
    answers: { 200: { description: 'A page of batches, newest first.', schema: batches.list } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/batches/{id}',
    id: 'getBatch',
    tag: 'Batches',
    summary: 'Read a batch',
    access: 'api_key',
    parameters: [batchId],
    answers: { 200: { description: 'The batch.', schema: batches.batch } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    id: 'cancelBatch',
    tag: 'Batches',
    summary: 'Cancel a batch',
    access: 'api_key',
    parameters: [batchId],
    answers: { 200: { description: 'The batch.', schema: batches.batch } },
    errors: changeErrors,
  },
];

const anthropic: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/messages/batches',
    id: 'createMessageBatch',
    tag: 'Batches',
    summary: 'Run requests of Messages at half the price',
    access: 'api_key',
    parameters: [idempotencyHeader],
    body: {
      schema: messageBatchRequest,
      examples: {
        one: {
          summary: 'One request',
          value: {
            requests: [
              {
                custom_id: 'one',
                params: { model: 'sim/small', max_tokens: 32, messages: [{ role: 'user', content: 'One.' }] },
              },
            ],
          },
        },
      },
    },
    answers: { 200: { description: 'The batch.', schema: batches.messageBatch } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/messages/batches',
    id: 'listMessageBatches',
    tag: 'Batches',
    summary: 'List the batches of Messages',
    access: 'api_key',
    parameters: [
      query('limit', 'The most batches of the page.', { type: 'integer', minimum: 1, maximum: 1000 }),
      query('after_id', 'The page begins after this batch.'),
      query('before_id', 'The page ends before this batch.'),
    ],
    answers: { 200: { description: 'A page of batches, newest first.', schema: batches.messageList } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/messages/batches/{id}',
    id: 'getMessageBatch',
    tag: 'Batches',
    summary: 'Read a batch of Messages',
    access: 'api_key',
    parameters: [batchId],
    answers: { 200: { description: 'The batch.', schema: batches.messageBatch } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/messages/batches/{id}/cancel',
    id: 'cancelMessageBatch',
    tag: 'Batches',
    summary: 'Cancel a batch of Messages',
    access: 'api_key',
    parameters: [batchId],
    answers: { 200: { description: 'The batch.', schema: batches.messageBatch } },
    errors: changeErrors,
  },
  {
    method: 'delete',
    path: '/v1/messages/batches/{id}',
    id: 'deleteMessageBatch',
    tag: 'Batches',
    summary: 'Delete a batch of Messages that has ended',
    access: 'api_key',
    parameters: [batchId],
    answers: { 200: { description: 'The batch is deleted.', schema: batches.messageDeleted } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/messages/batches/{id}/results',
    id: 'getMessageBatchResults',
    tag: 'Batches',
    summary: 'Read the results of a batch of Messages',
    access: 'api_key',
    parameters: [batchId],
    answers: {
      200: { description: 'A line a request.', others: { 'application/x-jsonl': { description: 'JSON lines.' } } },
    },
    errors: readErrors,
  },
].map(operation => ({ ...operation, errorShape: 'messages' }) as Operation);

/** The operations of files and batches. */
export const batchOperations: readonly Operation[] = [...files, ...openai, ...anthropic];
