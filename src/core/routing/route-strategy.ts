import { findPiecePrice } from '../../generation/price.ts';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { RouteReason } from '../../telemetry/request-telemetry.ts';
import { keyRestMs, type LiveRoute } from './live-routes.ts';
import type { OrderedRoutes } from './request-plan.ts';
import { orderRoutes, type RouteStrategy } from './route-table.ts';

/** A model's favourite route changes only if another route needs less than this share of its time, because medians of a few minutes differ by chance. */
const advantage = 0.8;
/** How often the favourite is chosen again. */
const reviewMs = 1_000;
/** One of this many requests goes to a route whose speed is unknown. */
const measuredEvery = 10;

/** The fastest route of a model, when it was last chosen. */
interface Favourite {
  readonly route: string;
  readonly reviewedAtMs: number;
}

/** The dependencies of `RouteStrategies`. */
export interface StrategyDependencies {
  readonly clock: Clock;
  readonly random: Random;
}

/** Orders the routes of models by their strategies, and remembers the fastest ones. */
export class RouteStrategies {
  readonly #dependencies: StrategyDependencies;
  /** By the model, and by whether the answer is streamed. */
  readonly #favourites = new Map<string, Favourite>();

  constructor(dependencies: StrategyDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Returns the routes in the order in which a request tries them, and why the first one was chosen. `whole`: the answer is not streamed.
   */
  order(routes: readonly LiveRoute[], strategy: RouteStrategy, whole: boolean): OrderedRoutes {
    const ordered = orderRoutes(routes, this.#dependencies.random);
    if (ordered.length <= 1) return { routes: ordered, reason: undefined };
    if (strategy === 'cheapest') return { routes: ordered.toSorted(byCost), reason: 'cheapest' };
    return strategy === 'fastest' ? this.#bySpeed(ordered, whole) : { routes: ordered, reason: 'priority' };
  }

  #bySpeed(ordered: readonly LiveRoute[], whole: boolean): OrderedRoutes {
    const unknown = ordered.filter(route => isOpen(route) && route.record.speedMs(whole) === undefined);
    const [measured] = unknown;
    // While no speed is known, the configured order applies, so the first route is measured.
    if (unknown.length === ordered.length || ordered.every(route => route.record.speedMs(whole) === undefined)) {
      return { routes: ordered, reason: 'priority' };
    }
    if (measured !== undefined && this.#dependencies.random() * measuredEvery < 1)
      return first(ordered, measured, 'measured');
    const fastest = this.#favourite(ordered, whole);
    const speed = ({ record }: LiveRoute): number => record.speedMs(whole) ?? Infinity;
    const rest = ordered.toSorted((one, other) => Math.sign(speed(one) - speed(other)) || 0);
    return first(rest, fastest, 'fastest');
  }

  /** Returns the favourite route, or another one that is clearly faster now. */
  #favourite(ordered: readonly LiveRoute[], whole: boolean): LiveRoute {
    const key = JSON.stringify([whole, ordered[0]?.name.modelId]);
    const now = this.#dependencies.clock.now();
    const before = this.#favourites.get(key);
    const current = ordered.find(route => before?.route === toName(route) && isOpen(route));
    if (current !== undefined && before !== undefined && Math.abs(now - before.reviewedAtMs) < reviewMs) return current;
    const open = ordered.filter(isOpen);
    const candidates = open.length === 0 ? ordered : open;
    const speeds = candidates.map(route => ({ route, ms: route.record.speedMs(whole) ?? Infinity }));
    const fastest = speeds.reduce((one, other) => (other.ms < one.ms ? other : one));
    const currentMs = current?.record.speedMs(whole) ?? Infinity;
    const chosen = current !== undefined && fastest.ms > currentMs * advantage ? current : fastest.route;
    this.#favourites.set(key, { route: toName(chosen), reviewedAtMs: now });
    return chosen;
  }
}

const toName = ({ name }: LiveRoute): string => JSON.stringify([name.provider, name.model]);

function isOpen(route: LiveRoute): boolean {
  return route.breaker.passable && keyRestMs(route) === 0;
}

function first(ordered: readonly LiveRoute[], route: LiveRoute, reason: RouteReason): OrderedRoutes {
  return { routes: [route, ...ordered.filter(each => each !== route)], reason };
}

/** Compares routes by cost. Routes of the same cost keep the configured order, because sorting is stable. */
function byCost(one: LiveRoute, other: LiveRoute): number {
  const [first, second] = [routeCost(one), routeCost(other)];
  return first < second ? -1 : first > second ? 1 : 0;
}

/** Returns a price to compare routes by: that of three input tokens and one output token, which is a usual proportion, or of an image or search. */
function routeCost({ cost }: LiveRoute): bigint {
  if (cost === undefined) return 0n;
  const { inputPicoUsd = 0n, outputPicoUsd = 0n } = cost;
  return 3n * inputPicoUsd + outputPicoUsd + (findPiecePrice(cost) ?? 0n);
}
