import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { createClient, createRouterTransport } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { CatalogService, type ListModelsRequestSchema, ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { catalogService } from './catalog-service.ts';
import { Catalog } from './catalog.ts';

const models = [
  create(ModelSchema, {
    id: 'acme/large',
    name: 'Acme Large',
    description: 'Thinks and SEES.',
    endpoints: [Endpoint.CHAT_COMPLETIONS, Endpoint.MESSAGES],
    vision: true,
    functionCall: true,
    reasoning: true,
    serviceTiers: [ServiceTier.FLEX, ServiceTier.PRIORITY],
    available: true,
  }),
  create(ModelSchema, {
    id: 'acme/mini:free',
    endpoints: [Endpoint.CHAT_COMPLETIONS],
    functionCall: true,
    available: true,
  }),
  create(ModelSchema, { id: 'acme/old', endpoints: [Endpoint.RESPONSES], serviceTiers: [ServiceTier.FLEX] }),
  create(ModelSchema, { id: 'acme/paint', endpoints: [Endpoint.IMAGE_EDITS], available: true }),
];

let allowed: readonly string[] | null = null;
const thrown: unknown[] = [];
const service = catalogService({
  catalog: new Catalog({ models, aliases: new Map([['large', 'acme/large']]) }, () => true),
  visible: () => Promise.resolve(allowed),
});
// Converts errors as the listener does: their code is in a detail.
const transport = createRouterTransport(router => router.service(CatalogService, service), {
  router: {
    interceptors: [
      next => request =>
        next(request).catch((error: unknown) => {
          thrown.push(error);
          throw error;
        }),
    ],
  },
});
const client = createClient(CatalogService, transport);

async function ids(filter: MessageInitShape<typeof ListModelsRequestSchema>, visible: readonly string[] | null = null) {
  allowed = visible;
  const { models: listed } = await client.listModels(filter);
  return listed.map(({ id }) => id.slice('acme/'.length));
}

async function refused(call: Promise<unknown>): Promise<GatewayError> {
  thrown.length = 0;
  await expect(call).rejects.toThrow();
  const [error] = thrown;
  if (error instanceof GatewayError) return error;
  throw new Error('no gateway error was thrown');
}

describe('the list', () => {
  test.each<[MessageInitShape<typeof ListModelsRequestSchema>, string[]]>([
    [{}, ['large', 'mini:free', 'old', 'paint']],
    [{ endpoint: Endpoint.CHAT_COMPLETIONS }, ['large', 'mini:free']],
    [{ endpoint: Endpoint.IMAGE_EDITS }, ['paint']],
    [{ endpoint: Endpoint.IMAGE_GENERATIONS }, []],
    [{ capability: 'vision' }, ['large']],
    [{ capability: 'function_call' }, ['large', 'mini:free']],
    [{ capability: 'reasoning' }, ['large']],
    [{ capability: 'flex' }, ['large', 'old']],
    [{ capability: 'priority' }, ['large']],
    [{ capability: 'service_tiers' }, ['large', 'old']],
    [{ free: true }, ['mini:free']],
    [{ free: false }, ['large', 'old', 'paint']],
    [{ available: false }, ['old']],
    [{ available: true, free: false }, ['large', 'paint']],
    [{ query: 'LARGE' }, ['large']],
    [{ query: 'sees' }, ['large']],
    [{ query: 'acme' }, ['large', 'mini:free', 'old', 'paint']],
    [{ query: 'nothing' }, []],
  ])('of %j is %j', async (filter, expected) => {
    expect(await ids(filter)).toEqual(expected);
  });

  test('of a key with allowed models has only those, in the catalogue’s order', async () => {
    expect(await ids({}, ['acme/paint', 'acme/large', 'gone/model'])).toEqual(['large', 'paint']);
    expect(await ids({}, [])).toEqual([]);
  });

  test('has aliases, after the models, only if they are requested', async () => {
    allowed = null;
    const { models: listed } = await client.listModels({ aliases: true });
    expect(listed.map(({ id, aliasOf }) => [id, aliasOf])).toEqual([
      ...models.map(({ id }) => [id, undefined]),
      ['large', 'acme/large'],
    ]);
    expect(listed.at(-1)).toMatchObject({ name: 'Acme Large', vision: true, available: true });
    allowed = ['acme/paint'];
    expect((await client.listModels({ aliases: true })).models.map(({ id }) => id)).toEqual(['acme/paint']);
  });

  test('of a key with a pattern has the models that match it', async () => {
    expect(await ids({}, ['acme/*a*'])).toEqual(['large', 'paint']);
    expect(await ids({}, ['*'])).toEqual(['large', 'mini:free', 'old', 'paint']);
  });

  test('refuses an unknown capability', async () => {
    const error = await refused(ids({ capability: 'toString' }));
    expect([error.code, error.facts.param]).toEqual(['invalid_request', 'capability']);
  });
});

describe('one model', () => {
  test.each(['acme/large', 'large', 'acme/large-20260501', 'large:flex'])('is found as %s', async id => {
    allowed = null;
    expect((await client.getModel({ id })).model?.id).toBe('acme/large');
  });

  test('that the key may not use gives the same error as one that does not exist', async () => {
    allowed = ['acme/paint'];
    const hidden = await refused(client.getModel({ id: 'acme/large' }));
    const unknown = await refused(client.getModel({ id: 'acme/none' }));
    expect([hidden.code, hidden.facets.http]).toEqual(['not_found', 404]);
    expect([unknown.code, unknown.message]).toEqual([hidden.code, hidden.message]);
    expect(hidden.tip).not.toContain('acme/large');
    expect((await client.getModel({ id: 'acme/paint' })).model?.id).toBe('acme/paint');
  });
});
