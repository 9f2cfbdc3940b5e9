import * as z from 'zod';
import { named } from '../json-schema.ts';
import { count, dollars, id, tags, time } from './fields.ts';

/** Records of usage, and their sums. Source: docs/accounting.md "Records". */

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
  end_user: z.string().nullable().describe('The end user; null: none was named.'),
  tags,
  batch_id: z.string().nullable().describe('The batch that it was an item of; null: none.'),
};
const record = named('ActivityRecord', z.object(recordShape));

const bucket = z.object({
  kind: z
    .string()
    .describe(
      '`input`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `output`, `image`, `search`, or a tool that the provider ran, as `web_search`.',
    ),
  tokens: count.describe('Tokens; images of `image`, units of `search`, calls of a tool.'),
  price: z.number().describe('The listed price: dollars per 1 million tokens, or each.'),
  multiplier: z.number().describe('The tier’s factor.'),
  discount: z.number().describe('The fraction that was taken off.'),
  cost: z.number().describe('The exact cost in dollars.'),
  paid_by: z.enum(['free', 'subscription', 'key_balance', 'group_balance', 'account', '']).describe('Who paid it.'),
});

const afterStart = count.describe('Milliseconds since it was admitted.');
const timeline = z.object({
  held_at_admission: dollars.describe('Dollars that were held when it was admitted.'),
  first_event_ms: count.nullable().describe('Until its first event; null: none came.'),
  provider: z.string().describe('The provider that answered; empty: none did.'),
  attempt_count: count.describe('Calls that went to routes, up to the answer.'),
  attempts: z
    .array(
      z.object({
        provider: z.string().describe('The provider’s name.'),
        model: z.string().describe('The provider’s own name of the model.'),
        reason: z
          .string()
          .nullable()
          .describe(
            'Why this route: `priority`, `cheapest`, `fastest`, `measured`, `conversation` or `fallback`; null: the model has no other.',
          ),
        started_ms: afterStart,
        first_event_ms: count.nullable().describe('From its start to its first event; null: none came.'),
        duration_ms: count.describe('How long it took, in milliseconds.'),
        result: z.string().describe('`completed`, or what ended it.'),
        status: z.int().nullable().describe('The upstream’s HTTP status, if it answered with an error.'),
      }),
    )
    .describe('The calls in their order; empty: one that needed no choice and completed, or none.'),
  extensions: z
    .array(z.object({ at_ms: afterStart, held: dollars.describe('Dollars that were held from then on.') }))
    .describe('How the hold grew.'),
});

const body = z
  .object({
    text: z.string().describe('The beginning of it, at most `content.body_bytes` of the configuration.'),
    bytes: count.describe('How long the whole was.'),
    cut: z.boolean().describe('Whether its end is missing.'),
  })
  .nullable();

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
        written_off: dollars.describe('What no funds could pay: the part that an estimate missed.'),
        usage_source: z
          .enum(['reported', 'estimated'])
          .describe('Who counted the tokens: the provider or the gateway.'),
        latency_ms: count.describe('From the request to its end.'),
        buckets: z.array(bucket).describe('Counts that do not overlap, each with its price.'),
        reasoning_tokens: count.describe('The part of the output that was reasoning.'),
        timeline: timeline.nullable().describe('How it went between its admission and its charge.'),
      })
      .describe('How a cost came about: the sum of the buckets’ costs, rounded once, is `cost` + `written_off`.'),
  ),
  bodies: named(
    'RequestBodies',
    z
      .object({
        request_id: z.string().describe('The `x-request-id` of its answer.'),
        model: z.string().describe('The listed id of the model.'),
        endpoint: z.string().nullable().describe('The path of the interface; null: none.'),
        failed: z.boolean().describe('Whether it failed.'),
        kept_at: time.describe('When they were stored.'),
        ends_at: time.describe('When they are removed.'),
        dropped: z.array(z.string()).describe('Members of the request that the upstream’s protocol can’t express.'),
        client_request: body.describe('What the client sent; null: it did not call over REST.'),
        contract_request: body.describe('The same in the gateway’s own contract, as JSON.'),
        upstream: z
          .array(
            z.object({
              provider: z.string().describe('The provider’s name.'),
              model: z.string().describe('The provider’s own name of the model.'),
              request: body.describe('What was sent.'),
              answer: body.describe('What came back.'),
            }),
          )
          .describe('The calls to upstreams, oldest first; none of a built-in model.'),
        contract_answer: body.describe('The answer in the contract: the items of its choices, as JSON.'),
        client_answer: body.describe('What the client got; null: nothing.'),
      })
      .describe('What was said in a request, if the operator or the key wants it kept.'),
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
            rest: z.literal(true).optional().describe('With `groups_max`: the sum of the other groups.'),
            ...sumsShape,
          }),
        )
        .describe('The sums of each hour or day, and of each group in it.'),
    }),
  ),
};
