import type { RouteName } from '../routing/observer.ts';
import { LearnedTokens } from './learned-tokens.ts';

/** Output tokens a second of a route that has not answered a whole answer yet: that of a large hosted model. */
const unknownTokensPerSecond = 50;
/** The weight of the latest answer. */
const latestShare = 0.2;

/**
 * Estimates what upstreams do not report. `tokens` has how they count text; the rest is for answers that were asked for as a whole and that nobody waited for: how long the call ran, times how fast the same route answered before. Source: decisions
 * §4 ("the estimate of what ran until the call was cut").
 */
export class UnseenOutput {
  readonly tokens = new LearnedTokens();
  /** Tokens a second by route. Routes are replaced as a whole on a reload. */
  readonly #speeds = new WeakMap<RouteName, number>();

  /** A whole answer of so many output tokens took that long. */
  learn(route: RouteName, outputTokens: number, tookMs: number): void {
    if (outputTokens === 0 || tookMs <= 0) return;
    const speed = (outputTokens * 1000) / tookMs;
    const known = this.#speeds.get(route);
    this.#speeds.set(route, known === undefined ? speed : known + latestShare * (speed - known));
  }

  /** Returns how many output tokens a call of that route has made in that time. */
  estimate(route: RouteName, ranMs: number): number {
    return Math.round(((this.#speeds.get(route) ?? unknownTokensPerSecond) * ranMs) / 1000);
  }
}
