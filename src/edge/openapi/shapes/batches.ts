import * as z from 'zod';
import { messagesRequestSchema } from '../../../codecs/messages/request-schema.ts';
import { batchRequestSchema } from '../../batches/batch-routes.ts';
import { named } from '../json-schema.ts';
import { anyObject, count, dollars, time } from './fields.ts';

/** Files and batches. Source: docs/interfaces/files-and-batches.md. */

/** The request body that creates a batch (OpenAI). */
export const batchRequest = named('BatchRequest', batchRequestSchema, {
  input_file_id: 'The file with one request per line.',
  endpoint: 'The path of all requests in the file.',
  completion_window: 'How long the batch may take.',
  metadata: 'Your own key-value pairs.',
});
/** The request body that creates a batch (Anthropic). */
export const messageBatchRequest = named(
  'MessageBatchRequest',
  z.object({ requests: z.array(z.object({ custom_id: z.string(), params: messagesRequestSchema })).min(1) }),
  {
    requests: 'The requests, each with a unique `custom_id` and the body of a Messages request.',
  },
);

const seconds = z.int().describe('Unix time in seconds.');
const file = named(
  'File',
  z.object({
    id: z.string(),
    object: z.literal('file'),
    bytes: count,
    created_at: seconds,
    expires_at: seconds,
    filename: z.string(),
    purpose: z.string().describe('`batch`, or `batch_output` for a file that a batch has written.'),
    status: z.literal('processed'),
    status_details: z.null(),
  }),
);
const batch = named(
  'Batch',
  z.object({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.string(),
    errors: z
      .object({
        object: z.literal('list'),
        data: z.array(
          z.object({ code: z.string(), line: z.int().nullable(), message: z.string(), param: z.string().nullable() }),
        ),
      })
      .nullable()
      .describe('Why the batch failed before any of its requests ran.'),
    input_file_id: z.string(),
    completion_window: z.literal('24h'),
    status: z.enum([
      'validating',
      'failed',
      'in_progress',
      'finalizing',
      'completed',
      'expired',
      'cancelling',
      'cancelled',
    ]),
    output_file_id: z.string().nullable().describe('The file with the results of the requests that succeeded.'),
    error_file_id: z.string().nullable().describe('The file with the results of the requests that failed.'),
    created_at: seconds,
    in_progress_at: seconds.nullable(),
    expires_at: seconds,
    finalizing_at: seconds.nullable(),
    completed_at: seconds.nullable(),
    failed_at: seconds.nullable(),
    expired_at: seconds.nullable(),
    cancelling_at: seconds.nullable(),
    cancelled_at: seconds.nullable(),
    request_counts: z.object({ total: count, completed: count, failed: count }),
    metadata: anyObject.nullable(),
    usage: z.object({
      input_tokens: count,
      input_tokens_details: z.object({ cached_tokens: count }),
      output_tokens: count,
      output_tokens_details: z.object({ reasoning_tokens: count }),
      total_tokens: count,
      cost: dollars.describe('Dollars debited so far.'),
    }),
  }),
);
const messageBatch = named(
  'MessageBatch',
  z.object({
    id: z.string(),
    type: z.literal('message_batch'),
    processing_status: z.enum(['in_progress', 'canceling', 'ended']),
    request_counts: z.object({
      processing: count,
      succeeded: count,
      errored: count,
      canceled: count,
      expired: count,
    }),
    created_at: time,
    expires_at: time,
    ended_at: time.nullable(),
    cancel_initiated_at: time.nullable(),
    archived_at: time.nullable(),
    results_url: z.string().nullable().describe('Where the results are, once the batch has ended.'),
  }),
);
const page = { first_id: z.string().nullable(), last_id: z.string().nullable(), has_more: z.boolean() };

/** The schemas of the response bodies. */
export const batches = {
  file,
  files: named('FileList', z.object({ object: z.literal('list'), data: z.array(file), ...page })),
  fileDeleted: named('FileDeleted', z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })),
  batch,
  list: named('BatchList', z.object({ object: z.literal('list'), data: z.array(batch), ...page })),
  messageBatch,
  messageList: named('MessageBatchList', z.object({ data: z.array(messageBatch), ...page })),
  messageDeleted: named('MessageBatchDeleted', z.object({ id: z.string(), type: z.literal('message_batch_deleted') })),
};
