import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { Catalog } from './catalog.ts';
import { deprecationWarnings } from './deprecation.ts';

const seconds = (date: string): bigint => BigInt(Date.parse(date) / 1000);
const endpoints = [Endpoint.CHAT_COMPLETIONS];
const old = create(ModelSchema, {
  id: 'acme/old',
  endpoints,
  available: true,
  deprecatedAt: seconds('2026-12-01'),
  retiresAt: seconds('2027-01-31'),
  replacement: 'acme/new',
});
const models = [old, create(ModelSchema, { id: 'acme/new', endpoints, available: true })];
const catalogAt = (date: string) =>
  new Catalog({ models, aliases: new Map([['favourite', 'acme/old']]) }, () => true, { now: () => Date.parse(date) });

test.each([
  ['2026-11-30T23:59:59Z', []],
  ['2026-12-01T00:00:00Z', ['deprecated=acme/old;retires_at=2027-01-31;replacement=acme/new']],
])('at %s the warnings are %j', (date, expected) => {
  expect(deprecationWarnings(old, Date.parse(date))).toEqual(expected);
});

test('a model with a date of retirement alone is deprecated already; one without dates is not', () => {
  const ending = create(ModelSchema, { id: 'm', retiresAt: seconds('2027-01-31T12:00:00Z') });
  expect(deprecationWarnings(ending, 0)).toEqual(['deprecated=m;retires_at=2027-01-31T12:00:00.000Z']);
  expect(deprecationWarnings(create(ModelSchema, { id: 'm' }), Date.parse('2030-01-01'))).toEqual([]);
});

test('until it is retired, a model is listed and can be used', () => {
  const catalog = catalogAt('2027-01-30T23:59:59Z');
  expect(catalog.list().map(({ id }) => id)).toEqual(['acme/old', 'acme/new']);
  expect(catalog.resolve('old').model.id).toBe('acme/old');
});

test('from then on it is not listed, and each of its names is refused with the replacement', () => {
  const catalog = catalogAt('2027-01-31T00:00:00Z');
  expect(catalog.list().map(({ id }) => id)).toEqual(['acme/new']);
  expect(catalog.find('acme/old')).toBeUndefined();
  for (const name of ['acme/old', 'old', 'favourite', 'acme/old-2026-01-01']) {
    expect(() => catalog.resolve(name)).toThrow(
      expect.objectContaining({
        code: 'model_retired',
        message: 'acme/old was retired on 2027-01-31. Use acme/new instead.',
      }) as Error,
    );
  }
});
