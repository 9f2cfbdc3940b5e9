import * as z from 'zod';
import { chatRequestSchema } from '../../../codecs/chat/request-schema.ts';
import { named } from '../json-schema.ts';
import { fieldTexts } from './field-texts.ts';
import { anyObject, count, dollars } from './fields.ts';

/**
 * Chat Completions. Upstreams may add members to answers. Source: docs/interfaces/chat-completions.md
 * "Response".
 */

/** The body of a request. */
export const chatRequest = named('ChatCompletionRequest', chatRequestSchema, fieldTexts);

const toolCall = z.looseObject({
  id: z.string().describe('The id of the call, which the tool’s result has as `tool_call_id`.'),
  type: z.enum(['function', 'custom']),
  function: z
    .looseObject({ name: z.string(), arguments: z.string().describe('The text of a JSON object.') })
    .optional(),
  custom: z.looseObject({ name: z.string(), input: z.string() }).optional(),
});
/** The usage of a request, as Chat Completions counts it. */
export const chatUsage = z.looseObject({
  prompt_tokens: count.describe('All input tokens, cached ones included.'),
  completion_tokens: count.describe('All output tokens, reasoning included.'),
  total_tokens: count,
  prompt_tokens_details: z.looseObject({ cached_tokens: count, cache_write_tokens: count }).optional(),
  completion_tokens_details: z.looseObject({ reasoning_tokens: count }).optional(),
  cost: dollars.describe('Dollars that were debited.'),
});

/** The whole answer. */
export const chatCompletion = named(
  'ChatCompletion',
  z.looseObject({
    id: z.string().describe('The id of the answer.'),
    object: z.literal('chat.completion'),
    created: z.int().describe('Unix time in seconds.'),
    model: z.string().describe('The listed id of the model.'),
    choices: z.array(
      z.looseObject({
        index: count,
        message: z.looseObject({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          refusal: z.string().nullable(),
          tool_calls: z.array(toolCall).optional(),
          function_call: z.looseObject({ name: z.string(), arguments: z.string() }).optional(),
          reasoning_content: z.string().optional().describe('The model’s reasoning, if it is shown.'),
          reasoning_details: z
            .array(anyObject)
            .optional()
            .describe('The reasoning in pieces, with signatures; send it back unchanged.'),
          annotations: z.array(anyObject).optional(),
        }),
        logprobs: z
          .looseObject({ content: z.array(anyObject).nullable(), refusal: z.array(anyObject).nullable() })
          .nullable(),
        finish_reason: z
          .string()
          .describe('`stop`, `length`, `tool_calls`, `content_filter`, `function_call`, or a provider’s own reason.'),
      }),
    ),
    usage: chatUsage,
    service_tier: z.string().describe('The tier that was charged.'),
    system_fingerprint: z.string().nullable().describe('Changes when the provider’s configuration changes.'),
  }),
);
