import * as z from 'zod';
import { named } from '../json-schema.ts';
import { type Operation, pathId, query, readErrors } from '../operation.ts';
import { models } from '../shapes/models.ts';

/** The catalogue, and the pages for operators and people. */

const truth = { enum: ['true', 'false'] };
const state = named('State', z.object({ status: z.literal('ok') }));
const page = (description: string): Operation['answers'] => ({
  200: { description, others: { 'text/html': { description } } },
});

/** The operations of the catalogue and of operation. */
export const catalogOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/models',
    id: 'listModels',
    tag: 'Models',
    summary: 'List the models that the key may use',
    access: 'any_key',
    parameters: [
      query('endpoint', 'Only models that can be used on this path: `/v1/responses`.'),
      query('capability', 'Only models with this capability.', {
        enum: ['vision', 'function_call', 'reasoning', 'flex', 'priority'],
      }),
      query('q', 'Only models whose id, name or description contains this text.'),
      query('free', '`true`: only free models; `false`: only models that are not free.', truth),
      query('available', '`true`: only models that can be used now; `false`: only models that can’t.', truth),
      query('limit', 'The most models of the page; absent: all.', {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
      }),
      query('after_id', 'The page begins after this model.'),
      query('before_id', 'The page ends before this model.'),
    ],
    answers: { 200: { description: 'The models.', schema: models.list } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/models/{model}',
    id: 'getModel',
    tag: 'Models',
    summary: 'Read a model',
    description: 'The id may contain slashes, percent-encoded or not.',
    access: 'any_key',
    parameters: [pathId('model', 'The id of the model.')],
    answers: { 200: { description: 'The model.', schema: models.model } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/healthz',
    id: 'getHealth',
    tag: 'Operation',
    summary: 'Check whether the process is alive',
    access: 'anyone',
    answers: { 200: { description: 'It does.', schema: state } },
    errors: [500],
  },
  {
    method: 'get',
    path: '/readyz',
    id: 'getReadiness',
    tag: 'Operation',
    summary: 'Check whether the gateway accepts requests',
    access: 'anyone',
    answers: { 200: { description: 'It does.', schema: state } },
    errors: [503],
  },
  {
    method: 'get',
    path: '/metrics',
    id: 'getMetrics',
    tag: 'Operation',
    summary: 'Read the metrics',
    description:
      'On the public listener only with `metrics: public` in the configuration; always on the internal listener.',
    access: 'anyone',
    answers: {
      200: {
        description: 'The metrics.',
        others: { 'text/plain': { description: 'Prometheus’ text format.', example: '# TYPE tollgate_up gauge\n' } },
      },
    },
    errors: [404, 500],
  },
  {
    method: 'get',
    path: '/api/hello',
    id: 'getHello',
    tag: 'Operation',
    summary: 'Check whether the host can be reached',
    description: 'Claude Code asks it before its first request.',
    access: 'anyone',
    answers: { 200: { description: 'It can.', schema: named('Hello', z.object({ message: z.literal('hello') })) } },
    errors: [503],
  },
  {
    method: 'get',
    path: '/',
    id: 'getRoot',
    tag: 'Reference',
    summary: 'Read the addresses of this gateway',
    access: 'anyone',
    answers: {
      200: {
        description: 'Addresses of this gateway.',
        schema: named(
          'Root',
          z.object({
            name: z.literal('Tollgate'),
            version: z.string(),
            docs: z.string().describe('This reference, for people.'),
            openapi: z.string().describe('This reference, for programs.'),
            errors: z.string().describe('What every error means.'),
            models: z.string().describe('The models.'),
            health: z.string(),
          }),
        ),
      },
    },
    errors: [503],
  },
  {
    method: 'get',
    path: '/openapi.json',
    id: 'getOpenApi',
    tag: 'Reference',
    summary: 'Read this reference',
    access: 'anyone',
    answers: { 200: { description: 'OpenAPI 3.1.', schema: named('OpenApi', z.looseObject({ openapi: z.string() })) } },
    errors: [503],
  },
  {
    method: 'get',
    path: '/docs',
    id: 'getDocs',
    tag: 'Reference',
    summary: 'Browse this reference',
    access: 'anyone',
    answers: page('A page.'),
    errors: [503],
  },
  {
    method: 'get',
    path: '/docs/errors',
    id: 'getErrorDocs',
    tag: 'Reference',
    summary: 'Read what every error means',
    access: 'anyone',
    answers: page('A page with an index of all codes.'),
    errors: [503],
  },
];
