import * as z from 'zod';
import { GatewayError, type Violation } from '../errors/gateway-error.ts';
import { type Extra, Protocol, type Unknown } from '../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from './codec.ts';
import { toExtra } from './content.ts';
import { jsonLength, unknownMembers } from './json.ts';
import { narrowSchema } from './narrow-schema.ts';
import { documented } from '../lib/schema-notes.ts';

/**
 * Shared by the schemas of all interfaces: fields whose error messages describe the allowed values, the conversion of Zod's issues to the
 * gateway's error, and the handling of unknown members.
 */

type Path = readonly PropertyKey[];

/** A number within a range. */
export function numberIn(min: number, max: number): z.ZodNumber {
  const allowed = `must be a number from ${min} to ${max}`;
  return z.number(allowed).min(min, allowed).max(max, allowed);
}

/** An integer within a range; without `max`, any integer of at least `min`. */
export function integerIn(min: number, max?: number): z.ZodNumber {
  const allowed =
    max === undefined ? `must be an integer of at least ${min}` : `must be an integer from ${min} to ${max}`;
  const from = z.number(allowed).refine(Number.isInteger, allowed).min(min, allowed);
  return documented(max === undefined ? from : from.max(max, allowed), { json: { type: 'integer' } });
}

/**
 * A value that the gateway does not know: another name of an enumeration, another type of object. Clients can be newer than the gateway, so
 * it is carried and not refused. Source: docs/interfaces/README.md "Unknown fields and values".
 */
export class UnknownValue {
  readonly value: unknown;
  /** The member that names the kind of the value; undefined if the value itself is the name. */
  readonly key: string | undefined;
  /** The values that the gateway knows in its place: of that member, or of the value itself. */
  readonly known: readonly string[];

  constructor(value: unknown, known: readonly string[], key?: string) {
    this.value = value;
    this.known = known;
    this.key = key;
  }

  /** Returns what the client sent. */
  toJSON(): unknown {
    return this.value;
  }
}

/** Accepts only one of the given names. */
export function exactlyOneOf<const T extends readonly string[]>(values: T): z.ZodEnum<{ [K in T[number]]: K }> {
  return z.enum(values, `must be one of ${values.map(value => `"${value}"`).join(', ')}`);
}

/** Accepts one of the given names, and any other text as an `UnknownValue`. */
export function oneOf<const T extends readonly string[]>(values: T): z.ZodType<T[number] | UnknownValue> {
  const words = new Set<string>(values);
  const word = z
    .string(`must be one of ${values.map(value => `"${value}"`).join(', ')}`)
    .transform(value => (words.has(value) ? (value as T[number]) : new UnknownValue(value, values)));
  return documented(word, { json: { anyOf: [{ enum: values }, { type: 'string' }] } });
}

/** A text with at least one character, and at most `max`. */
export function textUpTo(max: number): z.ZodString {
  const allowed = `must be a string of 1 to ${max} characters`;
  return z.string(allowed).min(1, allowed).max(max, allowed);
}

/** Any text. */
export const text = z.string('must be a string');
/** A text with at least one character. */
export const someText = z.string('must be a string').min(1, 'must not be empty');
/** True or false. */
export const flag = z.boolean('must be a boolean');
/** The names of functions and schemas. */
export const toolName = z
  .string('must be a string')
  .regex(/^[a-zA-Z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, underscores or dashes');
/** Any JSON object. It is carried unchanged, nulls included. */
export const jsonObject = documented(
  z.custom<JsonObject>(
    value => typeof value === 'object' && value !== null && !Array.isArray(value),
    'must be an object',
  ),
  { json: { type: 'object' } },
);

/** An object whose unknown members stay in it. */
export function object<const T extends z.core.$ZodLooseShape>(shape: T): z.ZodObject<T, z.core.$loose> {
  return z.looseObject(shape, 'must be an object');
}

/** A list with at least `min` and at most `max` entries. */
export function listOf<T extends z.ZodType>(entry: T, min: number, max?: number): z.ZodArray<T> {
  const allowed =
    max === undefined ? `must be an array of at least ${min}` : `must be an array of ${min} to ${max} entries`;
  const list = z.array(entry, 'must be an array').min(min, allowed);
  return max === undefined ? list : list.max(max, allowed);
}

const metadataAllowed = 'must be an object of at most 16 strings';
/** The `metadata` of a request. */
export const metadata = z
  .record(
    z.string().max(64, 'must have a name of at most 64 characters'),
    text.max(512, 'must have at most 512 characters'),
    metadataAllowed,
  )
  .refine(value => Object.keys(value).length <= 16, metadataAllowed);

type Variant<Key extends string> = z.ZodObject<{ readonly [K in Key]: z.ZodLiteral<string> }, z.core.$loose>;

/**
 * Accepts one of several objects that the member `key` distinguishes, and any other object as an `UnknownValue`. `named`: the values of `key` that an
 * error lists. An empty `key` is of no kind that a newer client could mean: it is refused.
 */
export function oneBy<const Key extends string, const T extends readonly [Variant<Key>, ...Variant<Key>[]]>(
  key: Key,
  variants: T,
  named?: readonly string[],
): z.ZodType<z.output<T[number]> | UnknownValue> {
  const names = variants.map(variant => variant.shape[key].value);
  const quoted = names.map(name => `"${name}"`);
  const allowed = quoted.length === 1 ? `must be ${quoted.join()}` : `must be one of ${quoted.join(', ')}`;
  const known = z.discriminatedUnion(key, variants, allowed) as z.ZodType<z.output<T[number]>>;
  const words = new Set<string>(names);
  const unknown = unknownBy(key, named ?? names);
  const choose = (value: unknown): z.ZodType<z.output<T[number]> | UnknownValue> => {
    const name = readMember(value, key);
    return typeof name === 'string' && name !== '' && !words.has(name) ? unknown : known;
  };
  return chosen(choose, [...variants, unknown]);
}

/** Accepts what `schema` accepts, and objects without `type`, which real clients send and providers take: they are of the type `assumed`. */
export function typeOr<T>(assumed: string, schema: z.ZodType<T>): z.ZodType<T> {
  const completed = z.preprocess(value => ({ ...(value as object), type: assumed }), schema);
  const lacksType = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && readType(value) == null;
  return chosen<T>(value => (lacksType(value) ? completed : schema), [schema]);
}

/** Accepts an object whose member `key` has none of the `known` values. */
export function unknownBy(key: string, known: readonly string[]): z.ZodType<UnknownValue> {
  const json = {
    type: 'object',
    properties: { [key]: { type: 'string', not: { enum: known } } },
    required: [key],
    description: `An object whose \`${key}\` the gateway does not know. It is sent unchanged to upstreams of the same interface.`,
  };
  return documented(
    z.unknown().transform(value => new UnknownValue(value, known, key)),
    { json },
  );
}

/** Returns the schema members of each of several objects, by the value that distinguishes them. */
export function membersBy<const Key extends string, V extends Variant<Key>>(
  key: Key,
  variants: readonly V[],
): Readonly<Record<V['shape'][Key]['value'], ReadonlySet<string>>> {
  const entries = variants.map(({ shape }) => [shape[key].value, new Set(Object.keys(shape))]);
  return Object.fromEntries(entries) as Record<V['shape'][Key]['value'], ReadonlySet<string>>;
}

/** Makes a schema that chooses another one, among `among`, by the value, so that errors are those of the chosen schema. */
export function chosen<T>(choose: (value: unknown) => z.ZodType<T>, among: readonly z.ZodType[]): z.ZodType<T> {
  const schema = z.unknown().transform((value, context): T => {
    const result = choose(value).safeParse(value, parsing);
    if (result.success) return result.data;
    for (const issue of result.error.issues) context.addIssue({ ...issue });
    return z.NEVER;
  });
  return documented(schema, { among });
}

/** Returns the member `type` of a value, which names its kind. */
export function readType(value: unknown): unknown {
  return readMember(value, 'type');
}

function readMember(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

/** In bodies with more values than this, only the first violation is reported: collecting the issues of ten thousand entries takes a tenth of a second. */
const searchedValuesMax = 1000;
const untilFirst: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true };
/** The Zod context of the running `parseBody`, for the schemas that `chosen` parses within it. */
let parsing: z.core.ParseContextInternal<z.core.$ZodIssue> = {};

/** Returns the checked body. Throws `validation_error`, which names the first wrong field and, unless the body is long, lists all. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const result = parseAs(narrowSchema(schema, body), body, untilFirst);
  if (result.success) return result.data;
  const all = countValues(body, searchedValuesMax) < searchedValuesMax ? parseAs(schema, body, {}) : result;
  throw invalidBody(toViolations((all.error ?? result.error).issues, [], body));
}

function parseAs<T extends z.ZodType>(
  schema: T,
  body: unknown,
  context: typeof parsing,
): z.ZodSafeParseResult<z.output<T>> {
  parsing = context;
  try {
    return schema.safeParse(body, context);
  } finally {
    parsing = {};
  }
}

/** Returns the number of values in a value, counted up to `max`. */
function countValues(value: unknown, max: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const entry of Object.values(value)) {
    count += countValues(entry, max - count);
    if (count >= max) break;
  }
  return count;
}

/** Returns a `validation_error` for one field, for rules that no schema can express. */
export function invalidField(param: string, message: string, type = 'invalid_value'): GatewayError {
  return invalidBody([{ path: param.split('.'), message, type }]);
}

function invalidBody(violations: readonly Violation[]): GatewayError {
  const [first = { path: [], message: 'is not valid' }] = violations;
  const param = first.path.join('.');
  const message = param === '' ? `The body ${first.message}.` : `\`${param}\` ${first.message}.`;
  return new GatewayError('validation_error', message, { ...(param === '' ? {} : { param }), violations });
}

function toViolations(issues: readonly z.core.$ZodIssue[], base: Path, body: unknown): Violation[] {
  return issues.flatMap(issue => {
    const path = [...base, ...issue.path];
    const inner = issue.code === 'invalid_union' ? closest(issue.errors) : undefined;
    if (inner !== undefined) return toViolations(inner, path, body);
    const value = valueAt(body, path);
    const message = value === undefined && path.length > 0 ? `is required and ${issue.message}` : issue.message;
    const violation: Violation = { path: path.map(String), message, type: issue.code };
    // A text may be a prompt or a secret, so only numbers, booleans and null are repeated.
    return typeof value === 'number' || typeof value === 'boolean' || value === null
      ? [{ ...violation, inputJson: JSON.stringify(value) }]
      : [violation];
  });
}

/** Returns the issues of the alternative of a union that the value was meant to be: all of them are inside the value. Undefined if there is none. */
function closest(alternatives: readonly z.core.$ZodIssue[][]): z.core.$ZodIssue[] | undefined {
  return alternatives.find(issues => issues.length > 0 && issues.every(issue => issue.path.length > 0));
}

function valueAt(body: unknown, path: Path): unknown {
  let value = body;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return value;
}

/** Returns the known members of an object as a set. */
export function members(...names: string[]): ReadonlySet<string> {
  return new Set(names);
}

/**
 * Collects what a codec does not know of a request: the paths of unknown members, and settings with unknown values. Methods return unknown
 * members or content as a value that an item, part or tool can carry.
 */
export class UnknownMembers {
  readonly paths: string[] = [];
  /** Settings with unknown values that can't be dropped: for an upstream of another protocol the request is refused. */
  readonly values: Unknown[] = [];
  /** The size of the unknown members that no item, part or tool carries, in characters. */
  length = 0;
  readonly #protocol: Protocol;

  constructor(protocol: Protocol) {
    this.#protocol = protocol;
  }

  /** Collects the paths of the unknown members of a body. */
  collectFromBody(body: object, known: ReadonlySet<string>): void {
    const unknown = unknownMembers(body, known);
    if (unknown === undefined) return;
    this.paths.push(...Object.keys(unknown));
    this.length += jsonLength(unknown);
  }

  /** Collects the paths and the size of the unknown members of `value` at `path`, which nothing carries. Null counts as not sent. */
  list(value: object | null | undefined, known: ReadonlySet<string>, path: string): void {
    const unknown = unknownMembers(value ?? {}, known);
    if (unknown === undefined) return;
    for (const name in unknown) this.paths.push(`${path}.${name}`);
    this.length += jsonLength(unknown);
  }

  /** Collects the paths of the unknown members of `value` at `path`, and returns the members. Null counts as not sent. */
  collect(value: object | null | undefined, known: ReadonlySet<string>, path: string): Extra | undefined {
    const unknown = unknownMembers(value ?? {}, known);
    if (unknown === undefined) return undefined;
    for (const name in unknown) this.paths.push(`${path}.${name}`);
    return toExtra(this.#protocol, JSON.stringify(unknown));
  }

  /** Returns a setting if its value is known; else collects its path, so that for other protocols it is dropped with a warning. */
  knownOrWarn<T>(value: T | UnknownValue | null | undefined, path: string): T | undefined {
    if (!(value instanceof UnknownValue)) return value ?? undefined;
    this.paths.push(path);
    this.length += jsonLength(value.value);
    return undefined;
  }

  /** Returns a setting if its value is known; else collects its value, so that for other protocols the request is refused. */
  knownOrRefuse<T>(value: T | UnknownValue | null | undefined, path: string): T | undefined {
    if (!(value instanceof UnknownValue)) return value ?? undefined;
    this.values.push(this.#describe(value, path, false));
    this.length += jsonLength(value.value);
    return undefined;
  }

  /** Returns unknown content for an item or part. `hint`: the model does not read it. */
  content(value: UnknownValue, path: string, hint = false): { readonly case: 'unknown'; readonly value: Unknown } {
    return { case: 'unknown', value: this.#describe(value, path, hint) };
  }

  #describe(unknown: UnknownValue, path: string, hint: boolean): Unknown {
    const { value, key } = unknown;
    const place = key === undefined ? path : `${path}.${key}`;
    return {
      $typeName: 'tollgate.v1.Unknown',
      protocol: this.#protocol,
      path: place,
      json: JSON.stringify(value),
      message: this.#protocol === Protocol.MESSAGES ? messagesWords(unknown, path) : openaiWords(unknown),
      hint,
    };
  }
}

function quotedList(values: readonly string[], conjunction: string): string {
  const quoted = values.map(value => `'${value}'`);
  const last = quoted.at(-1) ?? '';
  return quoted.length < 2 ? last : `${quoted.slice(0, -1).join(', ')}${conjunction}${last}`;
}

/** Returns the error message of Anthropic's service; its clients look for these words, and continue without the refused value. */
function messagesWords({ value, key, known }: UnknownValue, path: string): string {
  if (key === undefined) return `${path}: Input should be ${quotedList(known, ' or ')}`;
  if (key !== 'type') return `${path}.${key}: Input should be ${quotedList(known, ' or ')}`;
  const tags = quotedList(known, ', ');
  return `${path}: Input tag '${String(readType(value))}' found using 'type' does not match any of the expected tags: ${tags}`;
}

/** Returns the error message of OpenAI's service. */
function openaiWords({ value, key, known }: UnknownValue): string {
  const named = key === undefined ? value : readMember(value, key);
  const words = typeof named === 'string' ? `'${named}'` : 'this form';
  if (known.length === 0) return `Invalid value: ${words}. Only providers of the same protocol take it.`;
  return `Invalid value: ${words}. Supported values are: ${quotedList(known, known.length > 2 ? ', and ' : ' and ')}.`;
}
