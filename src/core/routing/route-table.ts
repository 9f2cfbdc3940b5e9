import { ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import type { EmbeddingUpstream } from '../../generation/embeddings/embedding-upstream.ts';
import type { RerankUpstream } from '../../generation/rerank/rerank-upstream.ts';
import type { ImageUpstream } from '../../generation/images/image-upstream.ts';
import type { Upstream } from '../../generation/upstream.ts';
import type { Random } from '../../lib/backoff.ts';
import type { SemaphoreLimits } from '../../lib/semaphore.ts';

/** Someone who answers generations: a provider of the configuration, or the simulator. */
export interface Provider {
  /** Its name in the configuration. */
  readonly name: string;
  /** Answers text; absent where the provider only draws. */
  readonly upstream?: Upstream;
  /** Draws pictures; absent where the provider only answers text. */
  readonly images?: ImageUpstream;
  /** Embeds texts; absent where the provider can't. */
  readonly embeddings?: EmbeddingUpstream;
  /** Orders documents; absent where the provider can't. */
  readonly reranker?: RerankUpstream;
  /** How many tries may run there at once and wait for it; undefined: any number. */
  readonly concurrency?: SemaphoreLimits | undefined;
}

/** One way to answer a model. */
export interface RouteConfig {
  /** The provider's name. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
  /** The lower number is taken first. */
  readonly priority: number;
  /** Its share among the routes of the same priority; 0: only when the others can't. */
  readonly weight: number;
  /** Tiers beside the standard one that it can carry; undefined: all. */
  readonly tiers?: readonly ServiceTier[] | undefined;
  /** What the provider charges the operator; undefined: not said. */
  readonly cost?: RouteCost | undefined;
}

/** What a provider charges: pico-dollars a token, nano-dollars an image or a search. Absent: nothing. */
export interface RouteCost {
  readonly inputPicoUsd?: bigint;
  readonly outputPicoUsd?: bigint;
  readonly imageNanoUsd?: bigint;
  readonly searchNanoUsd?: bigint;
}

/** How a model's routes are ordered: by priority and weight, by what they cost, or by how soon they begin to answer. */
export type RouteStrategy = 'priority' | 'cheapest' | 'fastest';

/** What there is to route: providers, and the routes of each listed model id. */
export interface RoutingConfig {
  readonly providers: readonly Provider[];
  readonly routes: ReadonlyMap<string, readonly RouteConfig[]>;
  /** By listed id; `priority` of models that are not among them. */
  readonly strategies?: ReadonlyMap<string, RouteStrategy>;
}

/** Whether a route can carry a tier; the standard one always. */
export function carriesTier(route: RouteConfig, tier: ServiceTier): boolean {
  if (tier !== ServiceTier.FLEX && tier !== ServiceTier.PRIORITY) return true;
  return route.tiers === undefined || route.tiers.includes(tier);
}

/** Draws one of `routes` by weight; routes of weight 0 only where there is no other. */
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

/** The order in which a request takes the routes: by priority, within one drawn by weight without putting back. */
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
