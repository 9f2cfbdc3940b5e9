import * as z from 'zod';
import { named } from '../json-schema.ts';
import { time } from './fields.ts';

/** Errors. Source: docs/errors.md "The envelope". */

const shape = {
  message: z.string().describe('What is wrong, for people.'),
  type: z.string().describe('The kind of error, as the official clients expect it.'),
  param: z.string().nullable().describe('The field that is wrong: `messages.0.content`.'),
  code: z.string().nullable().describe('The code for programs to branch on: see `/docs/errors`.'),
  status_code: z.int().describe('The HTTP status.'),
  id: z.string().describe('The request’s id: quote it to the operator.'),
  tip: z.string().nullable().describe('What to do next.'),
  docs: z.string().nullable().describe('Where the code is explained.'),
  support: z.string().nullable().describe('Where to ask.'),
  community: z.record(z.string(), z.string()).nullable().describe('Addresses of discussions and the like, by name.'),
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

/** The bodies of errors. Account paths answer with `validation` if fields are wrong, otherwise with `openai`. */
export const errors = {
  openai: named('Error', z.object({ error: errorObject })),
  messages: named(
    'MessagesError',
    z.object({
      type: z.literal('error'),
      error: z.object({
        ...shape,
        details: z
          .looseObject({ error_code: z.string().optional() })
          .describe('Details that Anthropic’s clients look for.'),
      }),
      request_id: z.string().describe('The same as `error.id`.'),
    }),
  ),
  google: named(
    'GoogleError',
    z.object({
      error: z.object({
        code: z.int().describe('The HTTP status.'),
        message: z.string().describe('What is wrong, for people.'),
        status: z.string().describe('The status in Google’s words: `INVALID_ARGUMENT`.'),
        details: z
          .array(z.looseObject({ '@type': z.string() }))
          .describe(
            '`ErrorInfo`, whose `reason` is the code for programs to branch on (see `/docs/errors`), and `RetryInfo`.',
          ),
      }),
    }),
  ),
  validation: named(
    'ValidationError',
    z
      .object({
        detail: z.array(
          z.object({
            loc: z.array(z.string()).describe('`body` or `query`, then the path of the field.'),
            msg: z.string().describe('What is wrong with the field.'),
            type: z.string().describe('The rule that the field breaks.'),
            input: z
              .unknown()
              .describe('The value that was sent; null: none was sent, or it is too long to be repeated.'),
            ctx: z.object({}),
          }),
        ),
      })
      .describe('The error of an account path if fields of the body (422) or of the query (400) are wrong.'),
  ),
};
