import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../codec.ts';
import { toDialect } from './schema-dialect.ts';

test('keywords of the dialect are unchanged', () => {
  const schema: JsonObject = {
    type: 'object',
    description: 'A place',
    properties: {
      city: { type: 'string', title: 'City', enum: ['Oslo', 'Rome'] },
      at: { type: 'string', format: 'date-time' },
      counts: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, minItems: 1, maxItems: 3 },
      either: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      pattern: { type: 'boolean' },
    },
    required: ['city'],
    additionalProperties: false,
  };
  expect(toDialect(schema)).toEqual({ schema, lost: [] });
});

test.each<[string, JsonObject, JsonObject]>([
  ['const of a text', { const: 'a' }, { type: 'string', enum: ['a'] }],
  ['an enum with null', { type: 'string', enum: ['a', null] }, { type: ['string', 'null'], enum: ['a'] }],
  ['nullable', { type: 'string', nullable: true }, { type: ['string', 'null'] }],
  ['nullable before the type', { nullable: true, type: 'string' }, { type: ['string', 'null'] }],
  [
    'nullable of several types',
    { type: ['string', 'integer'], nullable: true },
    { type: ['string', 'integer', 'null'] },
  ],
  ['nullable that is so already', { type: ['string', 'null'], nullable: true }, { type: ['string', 'null'] }],
  ['nullable that is not', { type: 'string', nullable: false }, { type: 'string' }],
  [
    'nullable beside an enum',
    { nullable: true, enum: ['a'], type: 'string' },
    { enum: ['a'], type: ['string', 'null'] },
  ],
  [
    'nullable alternatives',
    { nullable: true, anyOf: [{ type: 'string' }, { type: 'integer' }] },
    { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] },
  ],
  ['nullable without a type', { nullable: true, description: 'Any' }, { description: 'Any' }],
  [
    'an enum with null before the type',
    { enum: ['a', null], type: 'string' },
    { enum: ['a'], type: ['string', 'null'] },
  ],
  ['an enum of integers', { enum: [1, 2], type: 'integer' }, { enum: [1, 2], type: 'integer' }],
  ['an enum of numbers without a type', { enum: [1, 2.5] }, { enum: [1, 2.5], type: 'number' }],
  ['const beside an enum', { enum: ['a', 'b'], const: 'b' }, { enum: ['b'], type: 'string' }],
  ['const of null', { const: null }, { type: 'null' }],
  ['const of a number', { const: 3, type: 'integer' }, { enum: [3], type: 'integer' }],
  [
    'additional properties by a schema',
    { type: 'object', additionalProperties: { nullable: true, type: 'number' } },
    { type: 'object', additionalProperties: { type: ['number', 'null'] } },
  ],
  [
    'references within alternatives',
    { anyOf: [{ $ref: '#/definitions/a', description: 'One' }, { type: 'null' }], definitions: { a: { const: 'x' } } },
    { anyOf: [{ $ref: '#/$defs/a' }, { type: 'null' }], $defs: { a: { enum: ['x'], type: 'string' } } },
  ],
  ['an exclusive bound of integers', { type: 'integer', exclusiveMinimum: 0 }, { type: 'integer', minimum: 1 }],
  ['an upper one', { type: 'integer', exclusiveMaximum: 9, maximum: 10 }, { type: 'integer', maximum: 8 }],
  ['definitions', { $ref: '#/definitions/a', definitions: { a: {} } }, { $ref: '#/$defs/a', $defs: { a: {} } }],
  [
    'allOf',
    {
      allOf: [
        { properties: { a: { type: 'string' } }, required: ['a'] },
        { properties: { b: {} }, required: ['b'] },
      ],
    },
    { properties: { b: {}, a: { type: 'string' } }, required: ['a', 'b'] },
  ],
  ['annotations', { $schema: 'x', type: 'string', default: 'a', examples: ['b'], 'x-order': 1 }, { type: 'string' }],
  ['a schema that is true', { items: true, anyOf: [true] }, { items: {}, anyOf: [{}] }],
])('%s is expressed in keywords of the dialect', (_, schema, expected) => {
  expect(toDialect(schema)).toEqual({ schema: expected, lost: [] });
});

test('keywords that the dialect lacks are described to the model and listed', () => {
  expect(toDialect({ type: 'string', description: 'A code.', pattern: '^[a-z]+$', minLength: 2 })).toEqual({
    schema: { type: 'string', description: 'A code. (pattern: "^[a-z]+$"; minLength: 2)' },
    lost: ['pattern', 'minLength'],
  });
  expect(toDialect({ type: 'number', exclusiveMinimum: 0 })).toEqual({
    schema: { type: 'number', description: '(exclusiveMinimum: 0)' },
    lost: ['exclusiveMinimum'],
  });
  expect(toDialect({ const: true }).lost).toEqual(['const']);
  expect(toDialect({ anyOf: [false] })).toEqual({ schema: { anyOf: [{}] }, lost: ['false'] });
  expect(toDialect({ $ref: '#/$defs/a', minimum: 1 })).toEqual({ schema: { $ref: '#/$defs/a' }, lost: ['minimum'] });
  expect(toDialect({ enum: ['a', 1] })).toEqual({ schema: { description: '(enum: ["a",1])' }, lost: ['enum'] });
  expect(toDialect({ $ref: '#/$defs/a', nullable: true }).lost).toEqual(['nullable']);
  expect(toDialect({ type: 'string', allOf: [{ type: 'number' }] })).toEqual({
    schema: { type: 'string' },
    lost: ['allOf'],
  });
});

const keyword = fc.constantFrom(
  'type',
  'enum',
  'const',
  'pattern',
  'properties',
  'items',
  'anyOf',
  'allOf',
  'not',
  'nullable',
  '$ref',
  'required',
);
const { schema: anySchema } = fc.letrec<{ schema: JsonObject; value: JsonObject[string] }>(tie => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<JsonObject[string]>('string', 'integer', 1, null, true, false),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('schema'),
  ),
  schema: fc.dictionary(keyword, tie('value'), { maxKeys: 4 }),
}));

test('any schema is translated to a schema that has only keywords of the dialect, and always to the same one', () => {
  const words = new Set(['type', 'enum', 'description', 'properties', 'items', 'anyOf', '$ref', 'required', '$defs']);
  fc.assert(
    fc.property(anySchema, schema => {
      const before = structuredClone(schema);
      const { schema: result } = toDialect(schema);
      expect(schema).toEqual(before);
      expect(toDialect(schema).schema).toEqual(result);
      expect(Object.keys(result).filter(name => !words.has(name))).toEqual([]);
      // A schema already in the dialect is not changed again.
      expect(toDialect(result).lost).toEqual([]);
    }),
  );
});

test('the order of the keywords does not matter', () => {
  const pieces = (description: unknown): string[] =>
    JSON.stringify(description)
      .split(/[;() ]+/)
      .toSorted();
  fc.assert(
    fc.property(anySchema, schema => {
      const turned = Object.fromEntries(Object.entries(schema).toReversed());
      const [one, other] = [toDialect(schema), toDialect(turned)];
      const { description: said = '', ...rest } = one.schema;
      const { description: alsoSaid = '', ...alsoRest } = other.schema;
      expect(alsoRest).toEqual(rest);
      expect([...other.lost].toSorted()).toEqual([...one.lost].toSorted());
      expect(pieces(alsoSaid)).toEqual(pieces(said));
    }),
    { numRuns: 2_000 },
  );
});
