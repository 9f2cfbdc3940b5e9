import * as z from 'zod';
import { countRequestSchema, messagesRequestSchema } from '../../../codecs/messages/request-schema.ts';
import { named } from '../json-schema.ts';
import { fieldTexts } from './field-texts.ts';
import { anyObject, count, dollars } from './fields.ts';

/** Messages. Upstreams may add members to answers. Source: docs/interfaces/messages.md "Response". */

const texts = {
  ...fieldTexts,
  max_tokens: 'The most output tokens, reasoning included.',
  messages: 'The conversation: `user` and `assistant` in turn, each with a text or content blocks.',
  metadata: '`user_id`: who the request is for.',
  temperature: 'How freely the model chooses: 0 to 1.',
};
/** The body of a request. */
export const messagesRequest = named('MessagesRequest', messagesRequestSchema, texts);
/** The body of a request to count tokens. */
export const countRequest = named('CountTokensRequest', countRequestSchema, texts);

const block = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string(), citations: z.array(anyObject).nullish() }),
  z.looseObject({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input: anyObject }),
  z.looseObject({
    type: z.literal('thinking'),
    thinking: z.string(),
    signature: z.string().describe('Send it back unchanged.'),
  }),
  z.looseObject({ type: z.literal('redacted_thinking'), data: z.string() }),
  z.looseObject({ type: z.string() }).describe('A block of a tool that the provider ran.'),
]);

/** Answers of the Messages interface. */
export const messages = {
  message: named(
    'MessagesAnswer',
    z.looseObject({
      id: z.string().describe('The id of the answer.'),
      type: z.literal('message'),
      role: z.literal('assistant'),
      model: z.string().describe('The listed id of the model.'),
      content: z.array(block).describe('What the model answered.'),
      stop_reason: z
        .string()
        .nullable()
        .describe(
          '`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `content_filter`, or a provider’s own reason.',
        ),
      stop_sequence: z.string().nullable().describe('The stop sequence that ended the answer; null: none did.'),
      usage: z.looseObject({
        input_tokens: count.describe('Uncached input tokens.'),
        output_tokens: count.describe('All output tokens, reasoning included.'),
        cache_creation_input_tokens: count,
        cache_read_input_tokens: count,
        cache_creation: z.looseObject({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }),
        output_tokens_details: z.looseObject({ thinking_tokens: count }),
        service_tier: z.string(),
        cost: dollars.describe('Dollars that were debited.'),
      }),
    }),
  ),
  count: named('TokenCount', z.object({ input_tokens: count.describe('The tokens of the input.') })),
};
