import * as z from 'zod';
import { documented } from '../lib/schema-notes.ts';
import { GatewayError, type Violation } from '../errors/gateway-error.ts';
import { parseJsonDollars } from '../lib/dollars.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import type { JsonBody } from './json-body.ts';

/** Shared by the schemas of the account endpoints' bodies. */

/** The largest limit or balance that can be set, in dollars or requests. */
export const amountMax = 9_000_000_000;
/** The member in which `exactDollars` keeps the digits of a number. */
const sourceText = Symbol('sourceText');
/** The length to which a violation cuts the values that it repeats. */
const shownLengthMax = 200;

/** Reads a body. `what`: what the body describes ("a key"), for errors. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readBody<Shape extends z.core.$ZodShape>(
  schema: z.ZodObject<Shape, z.core.$strict>,
  { value }: JsonBody,
  what: string,
): z.output<z.ZodObject<Shape, z.core.$strict>> {
  const result = schema.safeParse(value, { reportInput: true });
  if (result.success) return result.data;
  throw invalidBody(
    result.error.issues.flatMap(issue => toViolations(issue, { what, fields: Object.keys(schema.shape) })),
  );
}

/**
 * Returns the amount at `path` in nano-dollars, read from the JSON text, because a double loses the last digits of a large amount.
 * Undefined: there is no number at `path`.
 */
export function exactDollars({ raw }: JsonBody, ...path: readonly string[]): bigint | undefined {
  let found: unknown = JSON.parse(raw.toString('utf8'), (_, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' ? { [sourceText]: context?.source ?? String(value) } : value,
  );
  for (const name of path) found = (found as Readonly<Record<string, unknown>> | undefined)?.[name];
  const text = (found as { readonly [sourceText]?: string } | null | undefined)?.[sourceText];
  return text === undefined ? undefined : parseJsonDollars(text);
}

/** A time in ISO 8601, converted to milliseconds since 1970. `nullNote`: the end of the error message, such as ", or null for never". */
export function timeField(nullNote: string): z.ZodType<bigint, string> {
  const allowed = `must be a time as ISO 8601 writes it ("2026-12-31T23:59:59Z")${nullNote}`;
  const schema = z.string(allowed).transform((text, context): bigint => {
    const time = parseIsoTime(text);
    if (time !== undefined) return BigInt(time.floorMs);
    context.addIssue({ code: 'custom', message: allowed, input: text });
    return z.NEVER;
  });
  return documented(schema, { json: { format: 'date-time' } });
}

const lowBalance = `must be a number of dollars from 0 to ${amountMax}, or null for none`;

/** The balance below which an event is sent; null: no event. */
export const lowBalanceField = z.number(lowBalance).min(0, lowBalance).max(amountMax, lowBalance).nullable().optional();

/** Tags; the core checks their names and number. */
export const tagsField = z
  .record(z.string(), z.string('must be a string'), 'must be an object of strings')
  .transform(tags => ({ tags }));

const idAllowed = 'must be an integer of at least 1';

/**
 * The id of a key, group or account. An integer below 1 is invalid. An integer above the largest possible id becomes 0, for which the core
 * finds nothing.
 */
export const idField = documented(
  z
    .number(idAllowed)
    .refine(Number.isInteger, idAllowed)
    .min(1, idAllowed)
    .transform(id => (Number.isSafeInteger(id) ? BigInt(id) : 0n)),
  { json: { type: 'integer', minimum: 1 } },
);

function invalidBody(violations: readonly Violation[]): GatewayError {
  const [first = { path: [], message: 'is not valid' }] = violations;
  const param = first.path.join('.');
  const message = param === '' ? `The body ${first.message}.` : `${param}: ${first.message}.`;
  return new GatewayError('validation_error', message, { ...(param === '' ? {} : { param }), violations });
}

interface Described {
  readonly what: string;
  readonly fields: readonly string[];
}

function toViolations(issue: z.core.$ZodIssue, { what, fields }: Described): Violation[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    const message =
      path.length === 0
        ? `unknown field; the fields of ${what} are ${fields.join(', ')}`
        : `unknown field of ${path.join('.')}`;
    return issue.keys.map(key => ({
      path: [...path, key],
      message,
      type: 'extra_forbidden',
      ...shownInput(issue.input?.[key]),
    }));
  }
  return [{ path, message: issue.message, type: issue.code, ...shownInput(issue.input) }];
}

/** Returns the JSON of the value, for an error; a long string is cut, anything else that is too long is omitted. */
function shownInput(value: unknown): Pick<Violation, 'inputJson'> {
  if (typeof value === 'string') return { inputJson: JSON.stringify(value.slice(0, shownLengthMax)) };
  const inputJson = JSON.stringify(value) as string | undefined;
  return inputJson === undefined || inputJson.length > shownLengthMax ? {} : { inputJson };
}
