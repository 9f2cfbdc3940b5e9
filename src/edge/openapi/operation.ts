import type * as z from 'zod';
import type { ErrorShape } from '../call.ts';
import type { JsonSchema } from './json-schema.ts';

/** The credential that is required: an API key, a management key with a scope, a key of either kind, or none. */
export type Access = 'api_key' | 'any_key' | 'anyone' | { readonly scope: string };

/** An example of a request's body. */
export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

/** A parameter of the path, the query or the headers. */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly description: string;
  readonly schema: JsonSchema;
  /** True if the parameter must be sent; always true for path parameters. */
  readonly required?: boolean;
}

/** The body of a request: JSON, a form, or both if the client may choose. */
export interface Body {
  /** The schema of a JSON body, which must have a name; absent if the body can't be JSON. */
  readonly schema?: z.ZodType;
  /** Examples of a JSON body, by name. */
  readonly examples: Readonly<Record<string, Example>>;
  /** True if the body may be absent. */
  readonly optional?: boolean;
  /** The JSON Schema of the body as a form; absent if the body can't be a form. */
  readonly form?: JsonSchema;
  /** An example of the form that can be sent; files are given as text. */
  readonly formExample?: Readonly<Record<string, string>>;
}

/** The answer to a successful request. */
export interface Answer {
  readonly description: string;
  /** The schema of a JSON answer, which must have a name; absent if the answer is not JSON. */
  readonly schema?: z.ZodType;
  /** Media types other than JSON that the answer can have. */
  readonly others?: Readonly<Record<string, { readonly description: string; readonly example?: string }>>;
  /** The names of its headers in addition to `x-request-id`; `document.ts` describes them. */
  readonly headers?: readonly string[];
}

export type { ErrorShape } from '../call.ts';

/** One method of one public path. */
export interface Operation {
  readonly method: 'get' | 'post' | 'patch' | 'put' | 'delete';
  /** In OpenAPI's notation: `/v1/account/keys/{key_id}`. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  readonly parameters?: readonly Parameter[];
  readonly body?: Body;
  /** The answers by status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** The statuses with which it can fail. */
  readonly errors: readonly number[];
  /** Absent: `openai`. */
  readonly errorShape?: ErrorShape;
}

/** Error statuses of requests that run a model. */
export const generationErrors = [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503] as const;
/** Error statuses of requests that change something. */
export const changeErrors = [400, 401, 403, 404, 409, 413, 422, 500, 503] as const;
/** Error statuses of requests that read something. */
export const readErrors = [400, 401, 403, 404, 500, 503] as const;

/** Returns a path parameter that is an id. */
export function pathId(name: string, description: string, schema: JsonSchema = { type: 'string' }): Parameter {
  return { name, in: 'path', description, schema, required: true };
}

/** Returns a path parameter that is a numeric id. */
export function pathNumber(name: string, description: string): Parameter {
  return pathId(name, description, { type: 'integer', minimum: 1 });
}

/** Returns a query parameter. */
export function query(name: string, description: string, schema: JsonSchema = { type: 'string' }): Parameter {
  return { name, in: 'query', description, schema };
}

/** The query parameters that select a page of a list. */
export const pageQuery: readonly Parameter[] = [
  query('limit', 'The maximum number of entries on a page.', {
    type: 'integer',
    minimum: 1,
    maximum: 1000,
    default: 100,
  }),
  query('offset', 'How many entries to skip.', { type: 'integer', minimum: 0, default: 0 }),
];

/** The header of requests that generate or store something. */
export const idempotencyHeader: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'A unique name for this request. If the request is sent again with the same name within 24 hours, the same answer is returned, and nothing is stored or charged again.',
  schema: { type: 'string', maxLength: 255 },
};

/** The headers of requests that run a model. */
export const generationHeaders: readonly Parameter[] = [
  idempotencyHeader,
  {
    name: 'x-tollgate-tags',
    in: 'header',
    description: 'Tags by which the request is counted, at most 8: `team=search,env=prod`.',
    schema: { type: 'string' },
  },
  {
    name: 'x-tollgate-end-user',
    in: 'header',
    description: 'The end user of the request. If it is longer than 128 characters, its SHA-256 is stored instead.',
    schema: { type: 'string' },
  },
  {
    name: 'x-tollgate-strict',
    in: 'header',
    description: '`true`: refuse the request if a part of it would be dropped or changed for the model’s provider.',
    schema: { type: 'string', enum: ['true', 'false'] },
  },
];
