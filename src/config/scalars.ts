import * as z from 'zod';
import { readNetwork } from '../lib/client-address.ts';
import { documented } from '../lib/schema-notes.ts';
import { scaledInteger } from './decimal.ts';
import { readDuration } from './durations.ts';
import { Secret } from './secrets.ts';
import { NumberText } from './yaml-source.ts';

/**
 * The building blocks of the schema. Every message names the allowed values. `config.ts` puts file, line, path and the current value before
 * it.
 */

/** The JSON Schema of a value that YAML can write as a text or a number. */
const scalar = { type: ['string', 'number'] };
/** Returns the JSON Schema of a text that matches a pattern. */
const patterned = (pattern: string) => ({ type: 'string', pattern });
/** The JSON Schema of the placeholder `${NAME}` for a value that is in an environment variable. */
const variable = { type: 'string', pattern: String.raw`\$\{[A-Za-z_]` };

/**
 * A value of one kind; `allowed` completes "must be …", `read` returns undefined for anything else, `json` is its
 * JSON Schema.
 */
export function leaf<T>(
  allowed: string,
  read: (value: unknown) => T | undefined,
  json: Readonly<Record<string, unknown>> = scalar,
): z.ZodType<T> {
  const schema = z.unknown().transform((value, context): T => {
    const result = value === undefined ? undefined : read(value);
    if (result !== undefined) return result;
    const message = value === undefined ? `is missing, must be ${allowed}` : `must be ${allowed}`;
    context.issues.push({ code: 'custom', message, input: value });
    return z.NEVER;
  });
  return documented(schema, { json: { anyOf: [json, variable], description: allowed } });
}

/** The beginning of the message for an unknown key. The known keys follow it. */
export const unknownKeyMark = 'unknown key, known keys are: ';

const isMapping = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof NumberText);

/** A mapping with these members and no others. */
export function mapping<Shape extends z.ZodRawShape>(shape: Shape) {
  const known = unknownKeyMark + Object.keys(shape).join(' ');
  return z
    .custom<object>(isMapping, { error: 'must be a mapping (key: value)' })
    .pipe(z.strictObject(shape, { error: ({ code }) => (code === 'unrecognized_keys' ? known : undefined) }));
}

/** A mapping whose keys the operator chooses. */
export function named<Name extends string, Schema extends z.ZodType>(name: z.ZodType<Name>, schema: Schema) {
  return z.record(name, schema, {
    error: ({ code }) => (code === 'invalid_type' ? 'must be a mapping (name: value)' : undefined),
  });
}

/** A list. */
export function listOf<Schema extends z.ZodType>(schema: Schema) {
  return z.array(schema, { error: 'must be a list' });
}

/** One value, or a list of at least one value. */
export function oneOrMore<Schema extends z.ZodType>(schema: Schema) {
  const list = z
    .unknown()
    .transform(value => (Array.isArray(value) ? (value as unknown[]) : [value]))
    .pipe(z.array(schema).min(1, { error: 'must be one, or a list of at least one' }));
  return documented(list, { among: [schema, z.array(schema).min(1)] });
}

/** Returns the text of a scalar: `name: 4` means the same as `name: "4"`. */
function toText(value: unknown): string | undefined {
  if (value instanceof NumberText) return value.text;
  return typeof value === 'string' ? value : undefined;
}

/** A text that is not empty. */
export const text = leaf('a text that is not empty', value => toText(value) || undefined, { ...scalar, minLength: 1 });

/** A text that matches a pattern. */
export function matching(pattern: RegExp, allowed: string): z.ZodType<string> {
  const read = (value: unknown): string | undefined => {
    const candidate = toText(value);
    return candidate !== undefined && pattern.test(candidate) ? candidate : undefined;
  };
  return leaf(allowed, read, { ...scalar, pattern: pattern.source });
}

const secretPattern = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;

/** A text that is never shown, and that can stand in an HTTP header. */
export const secret = leaf(
  'a text that is not empty and has no line break or space at its ends',
  value => {
    const candidate = toText(value);
    return candidate !== undefined && secretPattern.test(candidate) ? new Secret(candidate) : undefined;
  },
  { ...scalar, pattern: secretPattern.source },
);

export const flag = leaf('true or false', value => (typeof value === 'boolean' ? value : undefined), {
  type: 'boolean',
});

/** One of a few words. */
export function oneOf<const Word extends string>(...words: Word[]): z.ZodType<Word> {
  const allowed = [words.slice(0, -1).join(', '), ...words.slice(-1)].join(' or ');
  return leaf(allowed, value => words.find(word => word === value), { enum: words });
}

/** A whole number between bounds, both included. */
export function whole(min: number, max: number): z.ZodType<number> {
  const read = (value: unknown): number | undefined => {
    if (!(value instanceof NumberText) || !/^\d+$/.test(value.text)) return undefined;
    return value.value >= min && value.value <= max ? value.value : undefined;
  };
  return leaf(`a whole number from ${min} to ${max}`, read, { type: 'integer', minimum: min, maximum: max });
}

/** A number from `min` to `max`, both included. */
export function numberBetween(min: number, max: number): z.ZodType<number> {
  const read = (value: unknown): number | undefined => {
    if (!(value instanceof NumberText)) return undefined;
    return value.value >= min && value.value <= max ? value.value : undefined;
  };
  return leaf(`a number from ${min} to ${max}`, read, { type: 'number', minimum: min, maximum: max });
}

/** A decimal, read as an exact integer: multiplied by 10^`digits`. `what` names the quantity in messages. */
function exact(what: string, digits: number, max: number): z.ZodType<bigint> {
  const limit = BigInt(max) * 10n ** BigInt(digits);
  const read = (value: unknown): bigint | undefined => {
    const candidate = toText(value);
    const scaled = candidate === undefined ? undefined : scaledInteger(candidate, digits);
    return scaled !== undefined && scaled <= limit ? scaled : undefined;
  };
  const json = {
    anyOf: [{ type: 'number', minimum: 0, maximum: max }, patterned(String.raw`^\d+(\.\d{1,${digits}})?$`)],
  };
  return leaf(`${what} from 0 to ${max} with at most ${digits} decimals`, read, json);
}

/** Dollars per 1 million tokens, as pico-dollars a token. */
export const tokenPrice = exact('dollars per 1 million tokens', 6, 1_000_000);

/** Dollars, as nano-dollars. */
export const dollars = exact('dollars', 9, 1_000_000);

/** A fraction, in thousandths. */
export const fraction: z.ZodType<number> = exact('a fraction', 3, 1).transform(Number);

/** A price factor, in thousandths. */
export const factor: z.ZodType<number> = exact('a factor', 3, 1000).transform(Number);

const dayMs = 86_400_000;

/** A time span in milliseconds, at least `minMs`. The default maximum is a week, because Node.js' timers can't be much longer. */
export function duration(minMs: number, maxDays = 7): z.ZodType<number> {
  return leaf(
    `a duration from ${minMs}ms to ${maxDays}d, such as 500ms, 30s, 5m, 1h`,
    value => (typeof value === 'string' ? readDuration(value, minMs, maxDays) : undefined),
    patterned(String.raw`^\d+(\.\d+)?(ms|s|m|h|d)$`),
  );
}

/** A retention time in milliseconds: whole days or years of 365 days, at least `minDays`. */
export function keepingTime(minDays: number): z.ZodType<number> {
  const read = (value: unknown): number | undefined => {
    const [, amount, unit] = (typeof value === 'string' && /^(\d{1,5})([dy])$/.exec(value)) || [];
    const days = Number(amount) * (unit === 'y' ? 365 : 1);
    return amount !== undefined && days >= minDays && days <= 36_500 ? days * dayMs : undefined;
  };
  return leaf(`a time from ${minDays}d to 100y, such as 400d or 7y`, read, patterned(String.raw`^\d{1,5}[dy]$`));
}

const unitBytes: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
};

/** A size in bytes: a plain number, or one with a unit. */
export function size(minBytes: number, maxBytes: number): z.ZodType<number> {
  const read = (value: unknown): number | undefined => {
    const [, amount, unit] = /^(\d+(?:\.\d+)?) ?((?:[KMG]i?)?B|)$/.exec(toText(value) ?? '') ?? [];
    if (amount === undefined || unit === undefined) return undefined;
    const bytes = Math.round(Number(amount) * (unitBytes[unit] ?? Number.NaN));
    return bytes >= minBytes && bytes <= maxBytes ? bytes : undefined;
  };
  const json = {
    anyOf: [
      { type: 'integer', minimum: minBytes, maximum: maxBytes },
      patterned(String.raw`^\d+(\.\d+)? ?(([KMG]i?)?B)?$`),
    ],
  };
  return leaf(`a size from ${minBytes} to ${maxBytes} bytes, such as 65536, 500KB, 64MiB`, read, json);
}

/** An http or https address without credentials, query or fragment; returned without a slash at its end. */
export const address = leaf(
  'an http:// or https:// address without credentials, query or fragment',
  value => {
    const url = typeof value === 'string' ? URL.parse(value) : null;
    if (url === null || !['http:', 'https:'].includes(url.protocol)) return undefined;
    if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return undefined;
    return url.href.replace(/\/+$/, '');
  },
  patterned(String.raw`^[Hh][Tt]{2}[Pp][Ss]?://[^\s/?#@]+(/[^\s?#]*)?$`),
);

/** A link for people. It is kept as written, because `URL` would escape the braces of `{code}`. */
export const link = leaf(
  'an http://, https:// or mailto: link',
  value => {
    if (typeof value !== 'string' || !/^\S+$/.test(value)) return undefined;
    const protocol = URL.parse(value)?.protocol ?? '';
    return ['http:', 'https:', 'mailto:'].includes(protocol) ? value : undefined;
  },
  patterned(String.raw`^([Hh][Tt]{2}[Pp][Ss]?|[Mm]ailto):\S+$`),
);

/** A browser's origin, or `*`. */
export const origin = leaf(
  'an origin such as https://app.example (no path), or *',
  value => {
    if (value === '*') return '*';
    const url = typeof value === 'string' ? URL.parse(value) : null;
    return url !== null && ['http:', 'https:'].includes(url.protocol) && url.origin === value ? url.origin : undefined;
  },
  patterned(String.raw`^(\*|https?://[^\s/?#@]+)$`),
);

/** An address or a network. */
export const network = leaf(
  'an address or a network, such as 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32',
  value => (typeof value === 'string' && readNetwork(value) !== undefined ? value : undefined),
  patterned(String.raw`^[0-9A-Fa-f:.]+(/\d{1,3})?$`),
);

/** A day as YYYY-MM-DD, or seconds since 1970 UTC; read as seconds. */
export const moment = leaf(
  'a day such as 2026-05-01, or seconds since 1970',
  value => {
    if (value instanceof NumberText)
      return Number.isSafeInteger(value.value) && value.value >= 0 ? value.value : undefined;
    if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return undefined;
    const ms = Date.parse(`${value}T00:00:00Z`);
    return Number.isNaN(ms) || ms < 0 ? undefined : ms / 1000;
  },
  { anyOf: [{ type: 'integer', minimum: 0 }, patterned(String.raw`^\d{4}-\d\d-\d\d$`)] },
);
