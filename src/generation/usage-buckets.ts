/** Tokens in buckets that do not overlap; `reasoning` is a part of `output`. */
export interface UsageBuckets {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite5m: number;
  readonly cacheWrite1h: number;
  readonly output: number;
  readonly reasoning: number;
  readonly images: number;
}
