import * as z from 'zod';
import { continuingRequestSchema, responsesRequestSchema } from '../../../codecs/responses/request-schema.ts';
import { named } from '../json-schema.ts';
import { fieldTexts } from './field-texts.ts';
import { anyObject, count, dollars } from './fields.ts';

/** Responses. Upstreams may add members to answers. Source: docs/interfaces/responses.md "Response". */

const texts = { ...fieldTexts, metadata: 'Your own key-value pairs, at most 16, stored with the response.' };
/** The body of a request. */
export const responsesRequest = named('ResponsesRequest', responsesRequestSchema, texts);
/** The body of a request whose input is only counted or compacted. */
export const continuingRequest = named('ContinuingRequest', continuingRequestSchema, texts);

const status = z.enum(['in_progress', 'completed', 'incomplete']);
/** An item of a conversation. */
export const item = z.union([
  z.looseObject({
    type: z.literal('message'),
    id: z.string(),
    status,
    role: z.enum(['user', 'assistant', 'system', 'developer']),
    content: z.array(z.looseObject({ type: z.string() })).describe('Parts: `output_text`, `input_text`, `refusal`, …'),
    phase: z.enum(['commentary', 'final_answer']).optional(),
  }),
  z.looseObject({
    type: z.literal('function_call'),
    id: z.string(),
    status,
    call_id: z.string(),
    name: z.string(),
    arguments: z.string().describe('The text of a JSON object.'),
  }),
  z.looseObject({
    type: z.literal('reasoning'),
    id: z.string(),
    status,
    summary: z.array(z.looseObject({ type: z.literal('summary_text'), text: z.string() })),
    encrypted_content: z.string().optional().describe('Send it back unchanged.'),
  }),
  z.looseObject({ type: z.string() }).describe('An item of another type: `custom_tool_call`, `compaction`, …'),
]);
const usage = z.looseObject({
  input_tokens: count.describe('All input tokens, cached ones included.'),
  output_tokens: count.describe('All output tokens, reasoning included.'),
  total_tokens: count,
  input_tokens_details: z.looseObject({ cached_tokens: count, cache_write_tokens: count }),
  output_tokens_details: z.looseObject({ reasoning_tokens: count }),
  cost: dollars.describe('Dollars that were debited.'),
});

const response = named(
  'Response',
  z.looseObject({
    id: z.string().describe('The id of the response, which the next response names as its `previous_response_id`.'),
    object: z.literal('response'),
    created_at: z.int().describe('Unix time in seconds.'),
    completed_at: z.int().nullable().describe('Unix time in seconds; null if the response has not completed.'),
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    incomplete_details: z.looseObject({ reason: z.string() }).nullable().describe('Why the response is incomplete.'),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable().describe('Why the response failed.'),
    model: z.string().describe('The listed id of the model.'),
    output: z.array(item).describe('What the model answered.'),
    previous_response_id: z.string().nullable(),
    conversation: z
      .looseObject({ id: z.string() })
      .nullable()
      .describe('The conversation that the response belongs to.'),
    instructions: z.string().nullable(),
    tools: z.array(anyObject),
    tool_choice: z.union([z.string(), anyObject]),
    parallel_tool_calls: z.boolean(),
    max_tool_calls: z.int().nullable(),
    max_output_tokens: z.int().nullable(),
    truncation: z.enum(['auto', 'disabled']),
    text: z.looseObject({ format: anyObject, verbosity: z.string().nullable() }),
    reasoning: z.looseObject({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
    temperature: z.number(),
    top_p: z.number(),
    presence_penalty: z.number(),
    frequency_penalty: z.number(),
    top_logprobs: z.int(),
    store: z.boolean().describe('Whether the response is stored, so that it can be read and continued later.'),
    background: z.boolean().describe('Whether the response runs in the background.'),
    metadata: z.record(z.string(), z.string()),
    safety_identifier: z.string().nullable(),
    prompt_cache_key: z.string().nullable(),
    service_tier: z.string().describe('The charged tier; while the response runs, the requested one.'),
    usage: usage
      .nullable()
      .describe('What was used; null while the response runs, and if it failed before anything was used.'),
  }),
);

/** A single item. */
export const storedItem = named('Item', item);

/** Answers of the Responses interface. */
export const responses = {
  response,
  deleted: named(
    'ResponseDeleted',
    z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) }),
  ),
  items: named(
    'ItemList',
    z.object({
      object: z.literal('list'),
      data: z.array(item),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
  ),
  inputTokens: named(
    'InputTokens',
    z.object({ object: z.literal('response.input_tokens'), input_tokens: count.describe('The tokens of the input.') }),
  ),
  compaction: named(
    'Compaction',
    z.object({
      id: z.string(),
      object: z.literal('response.compaction'),
      created_at: z.int(),
      output: z.array(item).describe('The compacted conversation, to send as the `input` of the next request.'),
      usage,
    }),
  ),
};
