import type { Usage } from '../gen/tollgate/v1/event_pb.ts';

/** The usage of a request: tokens in buckets that do not overlap, except that `output` includes `reasoning`, and the pieces that are priced singly. */
export interface UsageBuckets {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite5m: number;
  readonly cacheWrite1h: number;
  readonly output: number;
  readonly reasoning: number;
  /** The number of images, or of the searches of a rerank request: the ledger has one column for everything that is priced by the piece. */
  readonly images: number;
}

/** Converts a usage to buckets; absent counts are 0. */
export function toBuckets(usage: Partial<Usage>): UsageBuckets {
  return {
    input: usage.inputTokens ?? 0,
    cacheRead: usage.cacheReadTokens ?? 0,
    cacheWrite5m: usage.cacheWrite5mTokens ?? 0,
    cacheWrite1h: usage.cacheWrite1hTokens ?? 0,
    output: usage.outputTokens ?? 0,
    reasoning: usage.reasoningTokens ?? 0,
    images: 0,
  };
}

/** No usage at all. */
export const noUsage: UsageBuckets = toBuckets({});

/** Converts buckets to the protobuf message `Usage`, which has no field for images. */
export function toUsage(buckets: UsageBuckets): Usage {
  return {
    $typeName: 'tollgate.v1.Usage',
    unpriced: [],
    inputTokens: buckets.input,
    cacheReadTokens: buckets.cacheRead,
    cacheWrite5mTokens: buckets.cacheWrite5m,
    cacheWrite1hTokens: buckets.cacheWrite1h,
    outputTokens: buckets.output,
    reasoningTokens: buckets.reasoning,
  };
}

/** Returns all input tokens, cached ones included. */
export function sumInput({ input, cacheRead, cacheWrite5m, cacheWrite1h }: UsageBuckets): number {
  return input + cacheRead + cacheWrite5m + cacheWrite1h;
}

/** Returns the sum of two usages, bucket by bucket. */
export function addBuckets(one: UsageBuckets, other: UsageBuckets): UsageBuckets {
  return {
    input: one.input + other.input,
    cacheRead: one.cacheRead + other.cacheRead,
    cacheWrite5m: one.cacheWrite5m + other.cacheWrite5m,
    cacheWrite1h: one.cacheWrite1h + other.cacheWrite1h,
    output: one.output + other.output,
    reasoning: one.reasoning + other.reasoning,
    images: one.images + other.images,
  };
}
