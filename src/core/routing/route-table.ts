import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { standardTier } from '../../generation/service-tier.ts';
import type { EmbeddingUpstream } from '../../generation/embeddings/embedding-upstream.ts';
import type { RerankUpstream } from '../../generation/rerank/rerank-upstream.ts';
import type { ImageUpstream } from '../../generation/images/image-upstream.ts';
import type { Upstream } from '../../generation/upstream.ts';
import type { Random } from '../../lib/backoff.ts';
import type { SemaphoreLimits } from '../../lib/semaphore.ts';

/** A configured provider, or the built-in models. */
export interface Provider {
  /** The provider's name in the configuration. */
  readonly name: string;
  /** Generates text; absent if the provider can't. */
  readonly upstream?: Upstream;
  /** Draws images; absent if the provider can't. */
  readonly images?: ImageUpstream;
  /** Embeds texts; absent if the provider can't. */
  readonly embeddings?: EmbeddingUpstream;
  /** Ranks documents; absent if the provider can't. */
  readonly reranker?: RerankUpstream;
  /** How many attempts may run and wait at the provider at once; undefined: any number. */
  readonly concurrency?: SemaphoreLimits | undefined;
}

/** One way to serve a model. */
export interface RouteConfig {
  /** The provider's name. */
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** Routes with a lower number are tried first. */
  readonly priority: number;
  /** The route's share of the requests among routes of the same priority; 0: it is used only if the others can't be. */
  readonly weight: number;
  /** The service tiers that it supports besides the standard one; undefined: all. */
  readonly tiers?: readonly string[] | undefined;
  /** The most tokens of input and output; undefined: as many as the model has. */
  readonly contextLength?: number | undefined;
  /** The provider's prices for the operator; undefined: unknown. */
  readonly cost?: Pricing | undefined;
}

/** How a model's routes are ordered: by priority and weight, by cost, or by time to first token. */
export type RouteStrategy = 'priority' | 'cheapest' | 'fastest';

/** The routing table: providers, and the routes of each listed model id. */
export interface RoutingConfig {
  readonly providers: readonly Provider[];
  readonly routes: ReadonlyMap<string, readonly RouteConfig[]>;
  /** The strategies of models by listed id; absent models have `priority`. */
  readonly strategies?: ReadonlyMap<string, RouteStrategy>;
}

/** Returns whether a route supports a service tier. All routes support the standard one. */
export function carriesTier({ tiers }: RouteConfig, tier: string): boolean {
  return tier === standardTier || tiers === undefined || tiers.includes(tier);
}

/** Chooses one of `routes` at random by weight; routes of weight 0 only if there is no other. */
function draw<Each extends RouteConfig>(routes: readonly Each[], random: Random): Each | undefined {
  const total = routes.reduce((sum, route) => sum + route.weight, 0);
  if (total === 0) return routes[Math.floor(random() * routes.length)];
  let left = random() * total;
  for (const route of routes) {
    left -= route.weight;
    if (left < 0) return route;
  }
  return routes.findLast(route => route.weight > 0);
}

/** Returns the routes in the order for one request: by priority, and routes of the same priority in a random order that depends on their weights. */
export function orderRoutes<Each extends RouteConfig>(routes: readonly Each[], random: Random): readonly Each[] {
  if (routes.length <= 1) return routes;
  const ordered: Each[] = [];
  const left = new Set(routes);
  while (left.size > 0) {
    const first = Math.min(...Array.from(left, route => route.priority));
    const drawn = draw(
      [...left].filter(route => route.priority === first),
      random,
    );
    if (drawn === undefined) break;
    left.delete(drawn);
    ordered.push(drawn);
  }
  return ordered;
}
