import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type Model, ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { type ResolveOptions, Catalog } from './catalog.ts';

const text = [Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES];
const tiers = [ServiceTier.FLEX, ServiceTier.PRIORITY];

function model(id: string, more: MessageInitShape<typeof ModelSchema> = {}): Model {
  return create(ModelSchema, { id, endpoints: text, available: true, ...more });
}

const models = [
  model('acme/large', { serviceTiers: tiers }),
  model('acme/mini', { serviceTiers: [ServiceTier.FLEX] }),
  model('acme/mini:free'),
  model('other/mini'),
  model('acme/dated-20260101'),
  model('acme/dated'),
  model('acme/twin-2026-01-01'),
  model('other/twin-2026-01-01'),
  model('third/twin'),
  model('plain', { available: false }),
  model('hub/meta/llama'),
  model('acme/paint', { endpoints: [Endpoint.IMAGE_GENERATIONS] }),
];
const aliases = new Map([
  ['best', 'acme/large'],
  ['gratis', 'acme/mini:free'],
  ['mini', 'acme/mini'],
  ['best-20250101', 'other/mini'],
]);

const broken = new Set<string>();
const catalog = new Catalog({ models, aliases }, id => !broken.has(id));

function refusal(name: string, options: ResolveOptions = {}): GatewayError {
  try {
    catalog.resolve(name, options);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error(`${name} was resolved`);
}

describe('a name means', () => {
  test.each<[string, string]>([
    // a listed id
    ['acme/large', 'acme/large'],
    ['acme/mini:free', 'acme/mini:free'],
    ['plain', 'plain'],
    // an alias, which has precedence over a part after the provider
    ['best', 'acme/large'],
    ['gratis', 'acme/mini:free'],
    ['mini', 'acme/mini'],
    // the part after the provider, if only one listed model has it
    ['large', 'acme/large'],
    ['mini:free', 'acme/mini:free'],
    ['meta/llama', 'hub/meta/llama'],
    // any of these with a trailing date
    ['acme/large-20260501', 'acme/large'],
    ['acme/large-2026-05-01', 'acme/large'],
    ['large-20260501', 'acme/large'],
    ['best-2026-05-01', 'acme/large'],
    ['acme/mini:free-20260501', 'acme/mini:free'],
    // a date that is part of a listed id or an alias is not removed
    ['acme/dated-20260101', 'acme/dated-20260101'],
    ['dated-20260101', 'acme/dated-20260101'],
    ['acme/dated-20260102', 'acme/dated'],
    ['acme/dated-20260101-20260102', 'acme/dated-20260101'],
    ['best-20250101', 'other/mini'],
  ])('%s means %s', (name, id) => {
    expect(catalog.resolve(name).model.id).toBe(id);
    expect(catalog.resolve(name).tier).toBe('default');
    expect(catalog.findListedId(name)).toBe(id);
  });

  test.each([
    ['another case', 'ACME/large'],
    ['the last part of three', 'llama'],
    ['a bare part that two models have', 'twin-2026-01-01'],
    ['an invalid month', 'acme/large-20261301'],
    ['an invalid day', 'acme/large-2026-05-32'],
    ['half a date', 'acme/large-202605'],
    ['a mixed date', 'acme/large-2026-0501'],
    ['two dates', 'acme/large-20260501-20260502'],
    ['only a date', '-20260501'],
    ['an unknown tier', 'acme/large:turbo'],
    ['two tiers', 'acme/large:flex:flex'],
    ['only a tier', ':flex'],
    ['a date behind a tier', 'acme/large:flex-20260501'],
    ['a free model that is not listed', 'acme/large:free'],
    ['nothing', ''],
    ['blanks', ' acme/large '],
    ['a name of Object.prototype', 'constructor'],
  ])('%s names no model: %s', (_what, name) => {
    const error = refusal(name);
    expect([error.code, error.facts.param]).toEqual(['model_not_found', 'model']);
  });

  test('a long name is not repeated whole', () => {
    expect(refusal('x'.repeat(5000)).message).toBe(`There is no model "${'x'.repeat(80)}…".`);
  });
});

describe('the tier', () => {
  test.each<[string, string | undefined, string]>([
    ['acme/large', undefined, 'default'],
    ['acme/large', 'default', 'default'],
    ['acme/large', 'flex', 'flex'],
    ['acme/large:flex', undefined, 'flex'],
    ['acme/large:priority', 'priority', 'priority'],
    ['large:flex', undefined, 'flex'],
    ['best:priority', undefined, 'priority'],
    ['acme/large-20260501:flex', 'flex', 'flex'],
    ['plain', 'default', 'default'],
  ])('of %s requested as %s is %s', (name, field, tier) => {
    expect(catalog.resolve(name, { tier: field }).tier).toBe(tier);
  });

  test.each([
    ['acme/large:flex', 'priority'],
    ['acme/large:priority', 'flex'],
    ['acme/large:flex', 'default'],
  ])('given as %s and as a different %s is refused', (name, tier) => {
    const error = refusal(name, { tier });
    expect([error.code, error.facets.http, error.facts.param]).toEqual(['invalid_request', 400, 'service_tier']);
  });

  test.each<[string, ResolveOptions, string]>([
    ['other/mini', { tier: 'flex' }, 'service_tier'],
    ['acme/mini', { tier: 'priority' }, 'service_tier'],
    ['acme/mini:priority', {}, 'model'],
    ['acme/mini:free:flex', {}, 'model'],
  ])('that the model lacks is refused: %s', (name, options, param) => {
    const error = refusal(name, options);
    expect([error.code, error.facets.http, error.facts.param]).toEqual(['unsupported_feature', 400, param]);
  });

  test('that the model lacks gets a tip with the tiers that it has', () => {
    expect(refusal('acme/mini:priority').tip).toBe('It has flex; without a tier it runs at the standard one.');
  });
});

describe('the path', () => {
  test('must be one that the model lists', () => {
    expect(catalog.resolve('acme/large', { endpoint: Endpoint.RESPONSES }).model.id).toBe('acme/large');
    const error = refusal('acme/large', { endpoint: Endpoint.MESSAGES });
    expect([error.code, error.facets.http, error.facts.param]).toEqual(['model_not_supported', 400, 'model']);
    expect(error.message).toBe("acme/large can't be used on /v1/messages.");
    expect(error.tip).toBe('Use it on /v1/chat/completions, /v1/responses, or another model here.');
  });

  test('of a direct caller may be any text path', () => {
    expect(catalog.resolve('acme/large', { endpoint: Endpoint.UNSPECIFIED }).model.id).toBe('acme/large');
    expect(refusal('acme/paint').code).toBe('model_not_supported');
    expect(catalog.resolve('paint', { endpoint: Endpoint.IMAGE_GENERATIONS }).model.id).toBe('acme/paint');
  });

  test('does not matter if the name is in the settings of a key or on a page', () => {
    expect(catalog.findListedId('paint')).toBe('acme/paint');
    expect(catalog.find('paint')?.id).toBe('acme/paint');
    expect(catalog.find('acme/mini:flex')?.id).toBe('acme/mini');
    expect(catalog.find('acme/mini:priority')).toBeUndefined();
  });
});

describe('availability', () => {
  test('needs the operator’s setting and a working route, and is checked at each request', () => {
    expect(catalog.resolve('plain').model.available).toBe(false);
    expect(catalog.resolve('acme/large').model.available).toBe(true);
    broken.add('acme/large');
    expect(catalog.resolve('acme/large').model.available).toBe(false);
    expect(
      catalog
        .list()
        .map(({ id, available }) => (available ? '' : id))
        .filter(Boolean),
    ).toEqual(['acme/large', 'plain']);
    broken.delete('acme/large');
    expect(catalog.resolve('acme/large').model.available).toBe(true);
  });
});

describe('a tip suggests', () => {
  test.each<[string, string]>([
    ['acme/larg', 'Did you mean acme/large?'],
    ['acme/lrage:flex', 'Did you mean acme/large?'],
    ['acme/lage-20260501', 'Did you mean acme/large?'],
    ['lareg', 'Did you mean large?'],
    ['twin-2026-01-01', 'Several models have this name: use acme/twin-2026-01-01 or other/twin-2026-01-01.'],
    ['entirely-unknown', 'List the models with GET /v1/models and use one of their ids.'],
  ])('for %s: %s', (name, tip) => {
    expect(refusal(name).tip).toContain(tip);
  });

  test('suggests nothing that the caller can’t see', () => {
    const visible = ['third/twin'];
    for (const name of ['acme/larg', 'lareg', 'bes', 'gratiss', 'twin-2026-01-01x']) {
      expect(refusal(name, { visible }).tip).not.toMatch(/acme|large|best|gratis|other/);
    }
    expect(refusal('third/twim', { visible }).tip).toContain('third/twin');
  });
});

test('new content replaces the old at once; invalid content changes nothing', () => {
  const changing = new Catalog({ models, aliases }, () => true);
  const content = { models: [model('new/one')], aliases: new Map([['one', 'gone/one']]) };
  expect(() => changing.replace(content)).toThrow('the alias one names no model');
  expect(changing.resolve('best').model.id).toBe('acme/large');
  changing.replace({ ...content, aliases: new Map() });
  expect(changing.list().map(({ id }) => id)).toEqual(['new/one']);
  expect(() => changing.resolve('best')).toThrow('There is no model "best".');
});

test('two models with one id are refused', () => {
  expect(() => new Catalog({ models: [model('a'), model('a')], aliases: new Map() }, () => true)).toThrow(
    'the same id',
  );
});
