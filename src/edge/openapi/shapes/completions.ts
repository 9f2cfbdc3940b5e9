import * as z from 'zod';
import { completionsRequestSchema } from '../../../codecs/completions/decode-request.ts';
import { named } from '../json-schema.ts';
import { chatUsage } from './chat.ts';
import { fieldTexts } from './field-texts.ts';
import { anyObject, count } from './fields.ts';

/** Completions, the interface before Chat. Upstreams may add members of their own to answers. */

/** The body of a request. */
export const completionsRequest = named('CompletionRequest', completionsRequestSchema, {
  ...fieldTexts,
  prompt: 'What the answer continues: a text, texts, token ids, or lists of token ids.',
  suffix: 'What follows the answer.',
  max_tokens: 'The most output; 0 only with `echo`.',
  n: 'How many answers each prompt has.',
  best_of: 'How many answers the model makes of which it gives the best.',
  logprobs: 'Log probabilities of so many likeliest tokens at each place.',
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
        finish_reason: z.string().describe('`stop`, `length`, `content_filter`, or a provider’s own.'),
      }),
    ),
    usage: chatUsage,
    system_fingerprint: z.string().optional().describe('What the provider calls its configuration.'),
  }),
);
