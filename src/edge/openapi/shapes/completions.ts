import * as z from 'zod';
import { completionsRequestSchema } from '../../../codecs/completions/decode-request.ts';
import { named } from '../json-schema.ts';
import { chatUsage } from './chat.ts';
import { fieldTexts } from './field-texts.ts';
import { anyObject, count } from './fields.ts';

/** Completions, the interface before Chat. Upstreams may add members to answers. */

/** The body of a request. */
export const completionsRequest = named('CompletionRequest', completionsRequestSchema, {
  ...fieldTexts,
  prompt: 'What the model continues: a text, texts, token ids, or lists of token ids.',
  suffix: 'The text that follows the answer.',
  max_tokens: 'The most output tokens; 0 only with `echo`.',
  n: 'How many answers to give to each prompt.',
  best_of: 'How many answers the model generates; it returns the best of them.',
  logprobs: 'For how many of the likeliest tokens at each place log probabilities are returned.',
  echo: 'Whether each answer begins with its prompt.',
});

/** The whole answer. */
export const completion = named(
  'Completion',
  z.looseObject({
    id: z.string().describe('The id of the answer.'),
    object: z.literal('text_completion'),
    created: z.int().describe('Unix time in seconds.'),
    model: z.string().describe('The listed id of the model.'),
    choices: z.array(
      z.looseObject({
        text: z.string(),
        index: count,
        logprobs: anyObject.nullable(),
        finish_reason: z.string().describe('`stop`, `length`, `content_filter`, or a provider’s own reason.'),
      }),
    ),
    usage: chatUsage,
    system_fingerprint: z.string().optional().describe('Changes when the provider’s configuration changes.'),
  }),
);
