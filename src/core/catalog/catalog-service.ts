import { create } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type CatalogService,
  GetModelResponseSchema,
  type ListModelsRequest,
  ListModelsResponseSchema,
  type Model,
} from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import { listTiers } from '../../generation/service-tier.ts';
import type { Catalog } from './catalog.ts';

interface CatalogServiceOptions {
  readonly catalog: Catalog;
  /** Returns the listed ids that the caller may see; null: all. Throws if the credential is invalid. */
  readonly visible: (context: CallContext) => Promise<readonly string[] | null>;
}

type Filter = (model: Model) => boolean;

/** The values of `capability`. `service_tiers` matches any tier, like the key of that name in a model's `capabilities`. */
const capabilityFilters: Readonly<Record<string, Filter>> = {
  vision: model => model.vision,
  function_call: model => model.functionCall,
  reasoning: model => model.reasoning,
  flex: model => model.serviceTiers.includes(ServiceTier.FLEX),
  priority: model => model.serviceTiers.includes(ServiceTier.PRIORITY),
  service_tiers: model => listTiers(model).length > 0,
};

/** CatalogService. A key with `allowed_models` sees only those; any other model is `not_found`. */
export function catalogService({ catalog, visible }: CatalogServiceOptions): PushedService<typeof CatalogService> {
  return {
    async listModels(request, context) {
      const allowed = await visible(context);
      const matches = readFilter(request);
      const seen = allowed && new Set(allowed);
      const models = catalog.list().filter(model => seen === null || seen.has(model.id));
      return create(ListModelsResponseSchema, { models: models.filter(matches) });
    },
    async getModel({ id }, context) {
      const allowed = await visible(context);
      const model = catalog.find(id);
      if (model === undefined || (allowed !== null && !allowed.includes(model.id))) {
        throw new GatewayError('not_found', 'There is no such model.', {
          param: 'id',
          tip: catalog.suggestion(id, allowed),
        });
      }
      return create(GetModelResponseSchema, { model });
    },
  };
}

function readFilter(request: ListModelsRequest): Filter {
  const filters: Filter[] = [];
  const { endpoint, capability, free, available, query } = request;
  if (endpoint !== Endpoint.UNSPECIFIED) filters.push(model => model.endpoints.includes(endpoint));
  if (capability !== '') filters.push(capabilityFilter(capability));
  if (free !== undefined) filters.push(model => model.id.endsWith(':free') === free);
  if (available !== undefined) filters.push(model => model.available === available);
  const wanted = query.toLowerCase();
  if (wanted !== '') {
    filters.push(({ id, name, description }) => `${id}\n${name}\n${description}`.toLowerCase().includes(wanted));
  }
  return model => filters.every(filter => filter(model));
}

function capabilityFilter(capability: string): Filter {
  const filter = Object.hasOwn(capabilityFilters, capability) ? capabilityFilters[capability] : undefined;
  if (filter !== undefined) return filter;
  throw new GatewayError('invalid_request', `capability must be one of ${Object.keys(capabilityFilters).join(', ')}.`, {
    param: 'capability',
  });
}
