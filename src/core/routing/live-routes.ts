import type { EmbeddingUpstream } from '../../generation/embeddings/embedding-upstream.ts';
import type { ImageUpstream } from '../../generation/images/image-upstream.ts';
import type { RerankUpstream } from '../../generation/rerank/rerank-upstream.ts';
import type { KeysHealth, Upstream } from '../../generation/upstream.ts';
import type { Clock } from '../../lib/clock.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import { Breaker, type BreakerPolicy } from './breaker.ts';
import type { RouteName, RoutingObserver } from './observer.ts';
import { RouteRecord } from './route-record.ts';
import type { Provider, RouteConfig, RoutingConfig } from './route-table.ts';

/** A route with its provider's upstreams, its breaker and its record. */
export interface LiveRoute extends RouteConfig {
  readonly name: RouteName;
  /** The upstreams of its provider, by kind; undefined if the provider has none of that kind. */
  readonly upstream: Upstream | undefined;
  readonly images: ImageUpstream | undefined;
  readonly embeddings: EmbeddingUpstream | undefined;
  readonly reranker: RerankUpstream | undefined;
  /** The state of the provider's keys; undefined: the provider has no keys. */
  readonly keys: KeysHealth | undefined;
  /** The results of the route's last attempts. */
  readonly record: RouteRecord;
  readonly breaker: Breaker;
  /** Limits the provider's concurrent requests; undefined: no limit. */
  readonly semaphore: Semaphore | undefined;
}

/** Returns how long the keys of a route's provider rest for its model, in ms; 0: one may be used now, or it needs none. */
export function keyRestMs({ keys, model }: Pick<LiveRoute, 'keys' | 'model'>): number {
  return keys?.restMs(model) ?? 0;
}

/** Returns whether no request gets a key of a route's provider now, or all of them were refused and have not worked since. */
export function isWithoutKey(route: Pick<LiveRoute, 'keys' | 'model'>): boolean {
  const health = route.keys?.health() ?? [];
  return keyRestMs(route) > 0 || (health.length > 0 && health.every(({ isRefused }) => isRefused));
}

interface LiveProvider {
  readonly provider: Provider;
  readonly semaphore: Semaphore | undefined;
}

const sameLimits = (one: Provider['concurrency'], other: Provider['concurrency']): boolean =>
  one?.slots === other?.slots && one?.waitersMax === other?.waitersMax && one?.waitMs === other?.waitMs;

interface LiveRouteDependencies {
  readonly clock: Clock;
  readonly breaker: BreakerPolicy;
  readonly observer: RoutingObserver;
}

/** The state of a route that is kept when the configuration is read again. */
type Learnt = Pick<LiveRoute, 'breaker' | 'record'>;

const toKey = (name: RouteName): string => JSON.stringify([name.modelId, name.provider, name.model]);

/** The routes of all models. If a new configuration still has a route or provider, its state is kept. */
export class LiveRoutes {
  readonly #dependencies: LiveRouteDependencies;
  #providers = new Map<string, LiveProvider>();
  #routes = new Map<string, readonly LiveRoute[]>();

  constructor(config: RoutingConfig, dependencies: LiveRouteDependencies) {
    this.#dependencies = dependencies;
    this.replace(config);
  }

  /** Applies a new configuration. Throws if a route names an unknown provider; then nothing changes. */
  replace(config: RoutingConfig): void {
    const providers = new Map(
      config.providers.map(provider => [provider.name, { provider, semaphore: this.#findSemaphore(provider) }]),
    );
    const learnt = new Map<string, Learnt>(
      [...this.#routes.values()].flat().map(route => [toKey(route.name), route] as const),
    );
    const routes = new Map<string, readonly LiveRoute[]>();
    for (const [modelId, configured] of config.routes) {
      routes.set(
        modelId,
        configured.map(route => this.#liveRoute({ modelId, ...route }, providers, learnt)),
      );
    }
    this.#providers = providers;
    this.#routes = routes;
  }

  /** Returns a model's routes as configured; an empty list for an unknown model. */
  of(modelId: string): readonly LiveRoute[] {
    return this.#routes.get(modelId) ?? [];
  }

  all(): LiveRoute[] {
    return [...this.#routes.values()].flat();
  }

  #findSemaphore({ name, concurrency }: Provider): Semaphore | undefined {
    const before = this.#providers.get(name);
    if (before !== undefined && sameLimits(before.provider.concurrency, concurrency)) return before.semaphore;
    return concurrency === undefined ? undefined : new Semaphore(concurrency);
  }

  #liveRoute(
    route: RouteConfig & { readonly modelId: string },
    providers: ReadonlyMap<string, LiveProvider>,
    learnt: ReadonlyMap<string, Learnt>,
  ): LiveRoute {
    const live = providers.get(route.provider);
    if (live === undefined) throw new Error(`model ${route.modelId} names an unknown provider: ${route.provider}`);
    const { modelId, ...config } = route;
    const name: RouteName = { modelId, provider: route.provider, model: route.model };
    const { clock, breaker, observer } = this.#dependencies;
    const known = learnt.get(toKey(name));
    return {
      ...config,
      name,
      upstream: live.provider.upstream,
      images: live.provider.images,
      embeddings: live.provider.embeddings,
      reranker: live.provider.reranker,
      keys: live.provider.upstream?.keys ?? live.provider.images?.keys,
      semaphore: live.semaphore,
      record: known?.record ?? new RouteRecord(clock),
      breaker: known?.breaker ?? new Breaker(clock, breaker, state => observer.breakerChanged?.(name, state)),
    };
  }
}
