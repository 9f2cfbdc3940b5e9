import type * as z from 'zod';
import { type ErrorCode, type ErrorFacets, errorTable } from '../../errors/error-table.ts';
import { googleError } from '../../codecs/gemini/index.ts';
import { errorType, messagesErrorType } from '../../errors/error-type.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { version } from '../../lib/version.ts';
import { type JsonSchema, namedSchemas, refTo } from './json-schema.ts';
import type { Access, Answer, Body, ErrorShape, Operation, Parameter } from './operation.ts';
import { accountOperations } from './operations/account.ts';
import { batchOperations } from './operations/batches.ts';
import { catalogOperations } from './operations/catalog.ts';
import { completionOperations } from './operations/completions.ts';
import { conversationOperations } from './operations/conversations.ts';
import { geminiOperations } from './operations/gemini.ts';
import { generationOperations } from './operations/generation.ts';
import { historyOperations } from './operations/history.ts';
import { mediaOperations } from './operations/media.ts';
import { errors } from './shapes/errors.ts';

/** Makes the API reference: every public path with its fields, errors and examples, as OpenAPI 3.1. */

/** All public operations. Add a new path here, or to one of these lists. */
export const operations: readonly Operation[] = [
  ...generationOperations,
  ...geminiOperations,
  ...completionOperations,
  ...conversationOperations,
  ...mediaOperations,
  ...catalogOperations,
  ...accountOperations,
  ...historyOperations,
  ...batchOperations,
];

const tags: Readonly<Record<string, string>> = {
  Chat: 'OpenAI’s Chat Completions.',
  Messages: 'Anthropic’s Messages.',
  Responses: 'OpenAI’s Responses.',
  Gemini: 'Google’s generateContent.',
  Completions: 'OpenAI’s interface before Chat Completions.',
  Conversations: 'Conversations that are stored for responses.',
  Images: 'Generating and editing images.',
  Embeddings: 'Vectors for texts.',
  Rerank: 'Ordering documents by relevance.',
  Models: 'The catalogue.',
  Keys: 'API keys of the account.',
  Limits: 'How much the account, its groups and its keys may use.',
  Groups: 'Groups of keys that share limits, tags and possibly a balance.',
  Usage: 'What was used, and what it cost.',
  Webhooks: 'Events that the account receives.',
  Batches: 'Many requests at half the price, within a day.',
  'Own key': 'What the holder of an API key can see.',
  Operation: 'For those who run the gateway.',
  Reference: 'This reference.',
};

const headers: Readonly<Record<string, string>> = {
  'x-request-id': 'The id of the request: quote it to the operator.',
  'x-tollgate-cost': 'What the request cost, in dollars.',
  'x-tollgate-route': 'The route that answered: provider, the number of its key if it has several, and model.',
  'x-ratelimit-limit-requests':
    'The maximum of the tightest request limit that applies to the key; `-tokens`: of the tightest token limit.',
  'x-ratelimit-remaining-requests': 'How many requests are left of that limit.',
  'x-ratelimit-reset-requests': 'The time until that limit resets: `12s`, `1m30s`.',
  'x-tollgate-warnings': 'Which fields were dropped or changed for the model’s provider.',
  'retry-after': 'How many seconds to wait before a retry.',
  'x-should-retry': 'Whether to retry the same request: `true` or `false`.',
};

const intro = `Access to many models through one address and one key. Clients of OpenAI's interfaces use the address with \`/v1\` behind it,
clients of Anthropic's the address as it is. Every path below \`/v1\` is also found without it.

Every answer has \`x-request-id\`. Errors have a \`code\`: [what each one means](/docs/errors).`;

/** Returns the reference as an OpenAPI 3.1 document. */
export function openApiDocument(): JsonSchema {
  return {
    openapi: '3.1.1',
    info: {
      title: 'Tollgate',
      version,
      description: intro,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: paths(),
    components: {
      schemas: namedSchemas(),
      responses: errorResponses(),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
      ),
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key: `sk-tg-…`.' },
        apiKeyHeader: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'The same key in another header.',
        },
        managementKey: { type: 'http', scheme: 'bearer', description: 'A management key, `mk-tg-…`, with the scope.' },
      },
    },
  };
}

function paths(): JsonSchema {
  const found: Record<string, JsonSchema> = {};
  for (const operation of operations) {
    const { path, method } = operation;
    found[path] = { ...found[path], [method]: toOperation(operation) };
  }
  return found;
}

function toOperation(operation: Operation): JsonSchema {
  const { id, tag, summary, description, access, parameters, body, answers, errorShape = 'openai' } = operation;
  const failures = [...operation.errors]
    .toSorted((one, other) => one - other)
    .map(status => [String(status), { $ref: `#/components/responses/${errorName(status, errorShape)}` }]);
  const successes = Object.entries(answers).map(([status, answer]) => [status, toResponse(answer)]);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    security: toSecurity(access),
    ...(parameters === undefined ? {} : { parameters: parameters.map(toParameter) }),
    ...(body === undefined ? {} : { requestBody: toRequestBody(body) }),
    responses: Object.fromEntries([...successes, ...failures]) as JsonSchema,
  };
}

function toSecurity(access: Access): JsonSchema[] {
  const apiKey = [{ apiKey: [] }, { apiKeyHeader: [] }];
  if (access === 'anyone') return [];
  if (access === 'api_key') return apiKey;
  return access === 'any_key' ? [...apiKey, { managementKey: [] }] : [{ managementKey: [access.scope] }];
}

function toParameter({ name, in: place, description, schema, required = false }: Parameter): JsonSchema {
  return { name, in: place, description, required, schema };
}

function toRequestBody({ schema, examples, optional = false, form, formExample }: Body): JsonSchema {
  const example = formExample === undefined ? {} : { example: formExample };
  return {
    required: !optional,
    content: {
      ...(schema === undefined ? {} : { 'application/json': { schema: refTo(schema), examples } }),
      ...(form === undefined ? {} : { 'multipart/form-data': { schema: form, ...example } }),
    },
  };
}

function toResponse({ description, schema, others = {}, headers: more = [] }: Answer): JsonSchema {
  const media = Object.entries(others).map(([type, { description: text, example }]) => [
    type,
    { schema: { type: 'string', description: text }, ...(example === undefined ? {} : { example }) },
  ]);
  const content: JsonSchema = {
    ...(schema === undefined ? {} : { 'application/json': { schema: refTo(schema) } }),
    ...(Object.fromEntries(media) as JsonSchema),
  };
  return {
    description,
    headers: toHeaders(['x-request-id', ...more]),
    ...(Object.keys(content).length === 0 ? {} : { content }),
  };
}

function toHeaders(names: readonly string[]): JsonSchema {
  return Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${name}` }]));
}

/** The beginnings of the names of error responses, and the schemas of their bodies, by shape. */
const errorShapes: Readonly<Record<ErrorShape, { readonly prefix: string; readonly schema: z.ZodType }>> = {
  openai: { prefix: 'Error', schema: errors.openai },
  messages: { prefix: 'MessagesError', schema: errors.messages },
  google: { prefix: 'GoogleError', schema: errors.google },
  account: { prefix: 'AccountError', schema: errors.openai },
};

function errorName(status: number, shape: ErrorShape): string {
  return `${errorShapes[shape].prefix}${status}`;
}

/** Returns one answer for each error status and shape, with an example of each of its codes. */
function errorResponses(): JsonSchema {
  const rows = Object.entries<ErrorFacets>(errorTable);
  const statuses = [...new Set(rows.map(([, { http }]) => http))].toSorted((one, other) => one - other);
  const shapes = Object.keys(errorShapes) as ErrorShape[];
  const named = shapes.flatMap(shape =>
    statuses.map(status => [errorName(status, shape), errorResponse(status, shape)] as const),
  );
  return Object.fromEntries(named);
}

function errorResponse(status: number, shape: ErrorShape): JsonSchema {
  const rows = Object.entries<ErrorFacets>(errorTable).filter(([, { http }]) => http === status);
  const codes = rows.map(([code]) => code as ErrorCode);
  const examples = Object.fromEntries(
    codes.map(code => [code, { summary: errorTable[code].meaning, value: exampleError(code, shape) }]),
  );
  const isValidation = shape === 'account' && (status === 400 || status === 422);
  const schema = isValidation
    ? { anyOf: [refTo(errors.validation), refTo(errors.openai)] }
    : refTo(errorShapes[shape].schema);
  return {
    description: codes.map(code => `\`${code}\``).join(', '),
    headers: toHeaders([
      'x-request-id',
      'x-should-retry',
      ...(status === 429 || status === 503 ? ['retry-after'] : []),
    ]),
    content: {
      'application/json': {
        schema,
        examples: isValidation ? { fields: validationExample(status), ...examples } : examples,
      },
    },
  };
}

/** Returns an error as the gateway sends it if the operator has configured no texts for errors. */
function exampleError(code: ErrorCode, shape: ErrorShape): JsonSchema {
  const { http, tip, meaning } = errorTable[code];
  const id = 'req_01k2m3n4p5q6r7s8t9v0w1x2y3';
  const error = {
    message: meaning,
    type: shape === 'messages' ? messagesErrorType(http) : errorType(http),
    param: null,
    code,
    status_code: http,
    id,
    tip,
    docs: `http://localhost:8080/docs/errors#${code}`,
    support: null,
    community: null,
  };
  if (shape === 'google') return googleExample(code, { id, docs: error.docs });
  if (shape !== 'messages') return { error };
  return { type: 'error', error: { ...error, details: { error_code: code } }, request_id: id };
}

function googleExample(code: ErrorCode, about: { readonly id: string; readonly docs: string }): JsonSchema {
  const { tip, meaning } = errorTable[code];
  return googleError(new GatewayError(code, meaning), { ...about, tip });
}

function validationExample(status: number): JsonSchema {
  const place = status === 422 ? ['body', 'daily_limit'] : ['query', 'limit'];
  const msg = status === 422 ? 'must be an integer from 0 to 9000000000' : 'must be an integer from 1 to 1000';
  return {
    summary: 'Wrong fields.',
    value: { detail: [{ loc: place, msg, type: 'value_error', input: -1, ctx: {} }] },
  };
}
