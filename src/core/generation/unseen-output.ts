import type { RouteName } from '../routing/observer.ts';
import { LearnedTokens } from './learned-tokens.ts';

/** The assumed output tokens per second of a route that has not answered yet: the speed of a large hosted model. */
const unknownTokensPerSecond = 50;
/** The weight of the latest answer. */
const latestShare = 0.2;

/**
 * Estimates output that upstreams did not report. Of an abandoned answer that was not streamed, the output is estimated from the duration of the call and the route's earlier speed. `tokens` has learned how upstreams count text. Source: docs/accounting.md
 * "Estimates".
 */
export class UnseenOutput {
  readonly tokens = new LearnedTokens();
  /** Tokens per second by route. A reload replaces all route objects, and their speeds are dropped with them. */
  readonly #speeds = new WeakMap<RouteName, number>();

  /** Learns a route's speed from a complete answer. */
  learn(route: RouteName, outputTokens: number, tookMs: number): void {
    if (outputTokens === 0 || tookMs <= 0) return;
    const speed = (outputTokens * 1000) / tookMs;
    const known = this.#speeds.get(route);
    this.#speeds.set(route, known === undefined ? speed : known + latestShare * (speed - known));
  }

  /** Estimates the output tokens of a call from its duration. */
  estimate(route: RouteName, ranMs: number): number {
    return Math.round(((this.#speeds.get(route) ?? unknownTokensPerSecond) * ranMs) / 1000);
  }
}
