import * as z from 'zod';
import { named } from '../json-schema.ts';
import { count, dollars, id, tags, time } from './fields.ts';

/** Records of what was used, and their sums. Source: service.md, "Activity record"; decisions §6. */

const recordShape = {
  request_id: z.string().describe('The `x-request-id` of its answer.'),
  model: z.string().describe('The listed id of the model.'),
  api_key_id: id.describe('The key that made it.'),
  cost: dollars.describe('Dollars that were debited.'),
  created_at: time.describe('When it was settled.'),
  state: z.enum(['completed', 'incomplete', 'client_aborted', 'upstream_failed']).describe('How it ended.'),
  service_tier: z.enum(['default', 'flex', 'priority']).describe('The tier that was billed.'),
  input_tokens: count.describe('Input that was neither read from a cache nor written to one.'),
  output_tokens: count.describe('Output, reasoning included.'),
  cache_creation_input_tokens: count.describe('Input that was written to a cache.'),
  cache_read_input_tokens: count.describe('Input that was read from a cache.'),
  end_user: z.string().nullable().describe('Who it was for; null: nobody was named.'),
  tags,
};
const record = named('ActivityRecord', z.object(recordShape));

const bucket = z.object({
  kind: z
    .string()
    .describe('`input`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `output`, `image` or `search`.'),
  tokens: count.describe('Tokens; images of `image`, units of `search`.'),
  price: z.number().describe('The listed price: dollars per 1 million tokens, or each.'),
  multiplier: z.number().describe('The tier’s factor.'),
  discount: z.number().describe('The fraction that was taken off.'),
  cost: z.number().describe('The exact cost in dollars.'),
  paid_by: z.enum(['free', 'subscription', 'key_balance', 'group_balance', 'account', '']).describe('Who paid it.'),
});

const sumsShape = {
  requests: count.describe('Settled requests.'),
  failed_requests: count.describe('Those whose upstream failed.'),
  cost: dollars.describe('Dollars that were debited.'),
  input_tokens: count.describe('Uncached input.'),
  output_tokens: count.describe('Output.'),
  cache_creation_input_tokens: count.describe('Input that was written to caches.'),
  cache_read_input_tokens: count.describe('Input that was read from caches.'),
  average_latency_ms: z.number().min(0).describe('From the request to its end.'),
};

/** Records and sums. */
export const usage = {
  activity: named(
    'Activity',
    z.object({
      data: z.array(record).describe('Newest first.'),
      limit: z.int().min(1).describe('The page’s size.'),
      offset: count.describe('What stands before the page.'),
    }),
  ),
  receipt: named(
    'Receipt',
    z
      .object({
        ...recordShape,
        written_off: dollars.describe('What nobody could pay any more: what an estimate missed.'),
        usage_source: z
          .enum(['reported', 'estimated'])
          .describe('Who counted the tokens: the provider or the gateway.'),
        latency_ms: count.describe('From the request to its end.'),
        buckets: z.array(bucket).describe('Counts that do not overlap, each with its price.'),
        reasoning_tokens: count.describe('The part of the output that was reasoning.'),
      })
      .describe('How a cost came about: the sum of the buckets’ costs, rounded once, is `cost` + `written_off`.'),
  ),
  analytics: named(
    'Analytics',
    z.object({
      metrics: z.object(sumsShape).describe('The sums of the whole time.'),
      series: z
        .array(
          z.object({
            timestamp: time.describe('When the hour or day begins.'),
            group: z.union([z.string(), z.number(), z.null()]).describe('What it is the sum of; null with `none`.'),
            group_id: id.optional().describe('With `group_by=group`: the group.'),
            ...sumsShape,
          }),
        )
        .describe('The sums of each hour or day, and of each group in it.'),
    }),
  ),
};
