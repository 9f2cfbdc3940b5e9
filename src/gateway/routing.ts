import { ConfigError } from '../config/config-error.ts';
import type { Environment } from '../config/env.ts';
import type { Config, ProviderSettings } from '../config/settings.ts';
import { defaultRetryPolicy, type RetryPolicy } from '../core/routing/request-plan.ts';
import type { Provider, RouteConfig, RoutingConfig } from '../core/routing/route-table.ts';
import { tierByName } from '../core/catalog/configured-model.ts';
import { systemClock } from '../lib/clock.ts';
import { createImageSimulator } from '../simulator/images/image-simulator.ts';
import { simulatorImageModels, simulatorModels } from '../simulator/models.ts';
import { createSimulator } from '../simulator/simulator.ts';
import { ImagesProvider } from '../upstreams/images.ts';
import { protocols } from '../upstreams/protocols.ts';
import { rehearsedImages, rehearsedUpstream } from '../upstreams/rehearsed-upstream.ts';
import { HttpProvider } from '../upstreams/http-upstream.ts';
import type { ProxySettings } from '../upstreams/connections.ts';

/** The simulator's name as a provider. */
export const simulatorName = 'simulator';

/** Providers and routes of a configuration; the built-in models are routes to the simulator. */
export function routingConfig(config: Config, proxy: ProxySettings): RoutingConfig {
  const routes = new Map<string, readonly RouteConfig[]>();
  const providers: Provider[] = config.providers.map(provider => providerOf(provider, config, proxy));
  if (config.simulator.enabled) {
    const { tokensPerSecond, steering } = config.simulator;
    const simulator = createSimulator({ tokensPerSecond, steering, clock: systemClock });
    const images = createImageSimulator({ steering });
    providers.push({
      name: simulatorName,
      upstream: rehearsedUpstream(simulator, config.timeouts),
      images: rehearsedImages(images, config.timeouts),
    });
    for (const { id } of [...simulatorModels, ...simulatorImageModels]) {
      routes.set(id, [{ provider: simulatorName, model: id, priority: 1, weight: 1 }]);
    }
  }
  for (const model of config.models) {
    const own = model.routes.map(({ tiers, ...route }) => ({ ...route, tiers: tiers?.map(tier => tierByName[tier]) }));
    routes.set(model.id, own);
  }
  return { providers, routes };
}

function providerOf(provider: ProviderSettings, config: Config, proxy: ProxySettings): Provider {
  const { name, baseUrl, headers, timeouts, concurrency } = provider;
  const common = {
    name,
    baseUrl,
    keys: provider.apiKeys,
    headers,
    timeouts,
    eventBytesMax: config.limits.upstreamEventBytes,
    proxy,
    clock: systemClock,
  };
  if (provider.protocol === 'images') return { name, images: new ImagesProvider(common), concurrency };
  const protocol = protocols[provider.protocol];
  if (protocol === undefined) {
    const path = `providers.${name}.protocol`;
    const spoken = [...Object.keys(protocols), 'images'].join(', ');
    throw new ConfigError([
      { ...place(config), path, message: `is ${provider.protocol}, this version speaks ${spoken}` },
    ]);
  }
  return { name, upstream: new HttpProvider({ ...common, protocol }), concurrency };
}

function place({ file }: Config): { file?: string } {
  return file === undefined ? {} : { file };
}

/** The proxies that the environment names, in lower or upper case as other programs read them. */
export function proxyOf({ variables }: Environment): ProxySettings {
  const read = (name: string): string | undefined => variables[name] ?? variables[name.toUpperCase()];
  const [httpProxy, httpsProxy, noProxy] = [read('http_proxy'), read('https_proxy'), read('no_proxy')];
  return {
    ...(httpProxy === undefined ? {} : { httpProxy }),
    ...(httpsProxy === undefined ? {} : { httpsProxy }),
    ...(noProxy === undefined ? {} : { noProxy }),
  };
}

/** How often and how fast is tried again. */
export function retryPolicy(config: Config): RetryPolicy {
  return { ...defaultRetryPolicy, retries: config.retries };
}
