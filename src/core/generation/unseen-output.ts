import type { RouteName } from '../routing/observer.ts';
import { LearnedTokens } from './learned-tokens.ts';

/** Output tokens per second of a route without a whole answer so far: the speed of a large hosted model. */
const unknownTokensPerSecond = 50;
/** The weight of the latest answer. */
const latestShare = 0.2;

/**
 * Estimates output that upstreams do not report. `tokens` holds how they count text; the rest is for non-streamed
 * answers that were abandoned: the duration of the call times the route's earlier speed. Source: docs/accounting.md
 * "Estimates".
 */
export class UnseenOutput {
  readonly tokens = new LearnedTokens();
  /** Tokens a second by route. Routes are replaced as a whole on a reload. */
  readonly #speeds = new WeakMap<RouteName, number>();

  /** Learns from a whole answer of this many output tokens in that time. */
  learn(route: RouteName, outputTokens: number, tookMs: number): void {
    if (outputTokens === 0 || tookMs <= 0) return;
    const speed = (outputTokens * 1000) / tookMs;
    const known = this.#speeds.get(route);
    this.#speeds.set(route, known === undefined ? speed : known + latestShare * (speed - known));
  }

  /** Returns how many output tokens a call at that route has produced in that time. */
  estimate(route: RouteName, ranMs: number): number {
    return Math.round(((this.#speeds.get(route) ?? unknownTokensPerSecond) * ranMs) / 1000);
  }
}
