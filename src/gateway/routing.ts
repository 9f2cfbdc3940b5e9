import { ConfigError } from '../config/config-error.ts';
import type { Config } from '../config/settings.ts';
import { toPricing } from '../core/catalog/configured-model.ts';
import { defaultRetryPolicy, type RetryPolicy } from '../core/routing/request-plan.ts';
import type { RouteConfig, RouteStrategy, RoutingConfig } from '../core/routing/route-table.ts';
import {
  simulatorEmbeddingModels,
  simulatorImageModels,
  simulatorModels,
  simulatorRerankModels,
} from '../simulator/models.ts';
import { protocols } from '../upstreams/protocols.ts';

/** The name of the built-in provider. */
export const simulatorName = 'simulator';

/** The built-in models, which need no configuration. */
export const builtInModels = [
  ...simulatorModels,
  ...simulatorImageModels,
  ...simulatorEmbeddingModels,
  ...simulatorRerankModels,
];

/** Throws `ConfigError` if a provider has a protocol that is not implemented. Called by `serve` and by `config check`. */
export function checkProtocols(config: Config): void {
  const spoken = [...Object.keys(protocols), 'images'];
  const problems = config.providers
    .filter(({ protocol }) => !spoken.includes(protocol))
    .map(({ name, protocol }) => ({
      ...(config.file === undefined ? {} : { file: config.file }),
      path: `providers.${name}.protocol`,
      message: `is ${protocol}, this version speaks ${spoken.join(', ')}`,
    }));
  if (problems.length > 0) throw new ConfigError(problems);
}

/** Returns the routes of a configuration. The built-in models have routes to the simulator. */
export function toRoutes(config: Config): RoutingConfig['routes'] {
  const routes = new Map<string, readonly RouteConfig[]>();
  if (config.simulator.enabled) {
    for (const { id } of builtInModels) {
      routes.set(id, [{ provider: simulatorName, model: id, priority: 1, weight: 1 }]);
    }
  }
  for (const model of config.models) {
    const own = model.routes.map(({ cost, ...route }) => ({
      ...route,
      cost: cost && toPricing(cost),
    }));
    routes.set(model.id, own);
  }
  return routes;
}

/** Returns how the routes of the models are ordered, by listed id. */
export function toStrategies(config: Config): ReadonlyMap<string, RouteStrategy> {
  return new Map(config.models.map(({ id, strategy = 'priority' }) => [id, strategy]));
}

/** Returns how often and how fast requests are retried. */
export function retryPolicy(config: Config): RetryPolicy {
  return { ...defaultRetryPolicy, retries: config.retries, keyWaitMs: config.capacity.waitMs };
}
