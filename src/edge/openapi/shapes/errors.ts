import * as z from 'zod';
import { named } from '../json-schema.ts';
import { time } from './fields.ts';

/** Errors. Source: docs/errors.md "The envelope". */

const shape = {
  message: z.string().describe('What is wrong, for people.'),
  type: z.string().describe('The kind of error, as the official clients know it.'),
  param: z.string().nullable().describe('The field that is wrong: `messages.0.content`.'),
  code: z.string().nullable().describe('What programs decide by: see `/docs/errors`.'),
  status_code: z.int().describe('The HTTP status.'),
  id: z.string().describe('The request’s id: quote it to the operator.'),
  tip: z.string().nullable().describe('What to do next.'),
  docs: z.string().nullable().describe('Where the code is explained.'),
  support: z.string().nullable().describe('Where to ask.'),
  community: z.record(z.string(), z.string()).nullable().describe('Where others talk about it.'),
  limit: z
    .object({
      limit_id: z.int(),
      scope: z.object({ type: z.string(), id: z.int() }),
      unit: z.string(),
      window: z.string().nullable(),
      used: z.number(),
      max: z.number(),
      resets_at: time.nullable(),
    })
    .optional()
    .describe('The limit that refused the request, if one did.'),
};

/** The error. */
export const errorObject = named('ErrorObject', z.object(shape));

/** The three shapes of errors. */
export const errors = {
  openai: named('Error', z.object({ error: errorObject })),
  messages: named(
    'MessagesError',
    z.object({
      type: z.literal('error'),
      error: z.object({
        ...shape,
        details: z.looseObject({ error_code: z.string().optional() }).describe('What Anthropic’s clients look for.'),
      }),
      request_id: z.string().describe('The same as `error.id`.'),
    }),
  ),
  validation: named(
    'ValidationError',
    z
      .object({
        detail: z.array(
          z.object({
            loc: z.array(z.string()).describe('`body` or `query`, then the path of the field.'),
            msg: z.string().describe('What is wrong with it.'),
            type: z.string().describe('The rule that it breaks.'),
            input: z.unknown().describe('What was sent; null: nothing, or too much to repeat.'),
            ctx: z.object({}),
          }),
        ),
      })
      .describe('What an account path answers if fields of the body (422) or the query (400) are wrong.'),
  ),
};
