import * as z from 'zod';
import { named } from '../json-schema.ts';
import { count, dollars, id, tags, time } from './fields.ts';

/** Records of requests, and their sums. Source: docs/accounting.md "Records". */

const recordShape = {
  request_id: z.string().describe('The `x-request-id` of the answer.'),
  model: z.string().describe('The listed id of the model.'),
  api_key_id: id.describe('The key that made the request.'),
  cost: dollars.describe('Dollars that were debited.'),
  created_at: time.describe('When the request was admitted.'),
  state: z.enum(['completed', 'incomplete', 'client_aborted', 'upstream_failed']).describe('How the request ended.'),
  service_tier: z
    .string()
    .describe('The tier that was charged: `default`, `flex`, `priority` or another one of the model.'),
  input_tokens: count.describe('Input tokens that were neither read from a cache nor written to one.'),
  output_tokens: count.describe('Output tokens, reasoning included.'),
  cache_creation_input_tokens: count.describe('Input tokens that were written to a cache.'),
  cache_read_input_tokens: count.describe('Input tokens that were read from a cache.'),
  end_user: z.string().nullable().describe('The end user; null: none was named.'),
  tags,
  batch_id: z.string().nullable().describe('The batch that the request was an item of; null: none.'),
  unpriced: z
    .array(z.string())
    .describe(
      'What the provider may have billed without a price here, as `usage.foo_tokens` or `service_tier`; empty: nothing.',
    ),
};
const record = named('ActivityRecord', z.object(recordShape));

const bucket = z.object({
  kind: z
    .string()
    .describe(
      '`input`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `output`, `image`, `search`, or a tool that the provider ran, as `web_search`.',
    ),
  tokens: count.describe('The number of tokens, or of images (`image`), searches (`search`) or calls (a tool).'),
  price: z.number().describe('The listed price in dollars: per 1 million tokens, or per image, search or call.'),
  multiplier: z.number().describe('The price factor of the tier or of a batch.'),
  discount: z.number().describe('The discount, as a fraction.'),
  cost: z.number().describe('The exact cost in dollars.'),
  paid_by: z.enum(['free', 'subscription', 'key_balance', 'group_balance', 'account', '']).describe('Who paid for it.'),
});

const afterStart = count.describe('Milliseconds since the request was admitted.');
const timeline = z.object({
  held_at_admission: dollars.describe('Dollars that were held when the request was admitted.'),
  first_event_ms: count.nullable().describe('Milliseconds from the admission to the first event; null: none came.'),
  provider: z.string().describe('The provider that answered; empty: none did.'),
  attempt_count: count.describe('The number of attempts at routes.'),
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
        first_event_ms: count
          .nullable()
          .describe('Milliseconds from the start of the attempt to its first event; null: none came.'),
        duration_ms: count.describe('How long the attempt took, in milliseconds.'),
        result: z.string().describe('`completed`, or what ended it.'),
        status: z.int().nullable().describe('The upstream’s HTTP status, if it answered with an error.'),
      }),
    )
    .describe(
      'The attempts in order; empty if there was none, or only one, on the model’s only route, which completed.',
    ),
  extensions: z
    .array(z.object({ at_ms: afterStart, held: dollars.describe('The total hold from then on, in dollars.') }))
    .describe('The extensions of the hold.'),
});

const body = z
  .object({
    text: z.string().describe('The beginning of the body, at most `content.body_bytes` of the configuration.'),
    bytes: count.describe('The size of the whole body.'),
    cut: z.boolean().describe('Whether the end of the body is missing.'),
  })
  .nullable();

const sumsShape = {
  requests: count.describe('Settled requests.'),
  failed_requests: count.describe('Requests whose upstream failed.'),
  cost: dollars.describe('Dollars that were debited.'),
  input_tokens: count.describe('Uncached input tokens.'),
  output_tokens: count.describe('Output tokens.'),
  cache_creation_input_tokens: count.describe('Input tokens that were written to caches.'),
  cache_read_input_tokens: count.describe('Input tokens that were read from caches.'),
  average_latency_ms: z.number().min(0).describe('The average time from admission to the end, in milliseconds.'),
};

/** Records and sums. */
export const usage = {
  activity: named(
    'Activity',
    z.object({
      data: z.array(record).describe('Newest first.'),
      limit: z.int().min(1).describe('The most records of the page.'),
      offset: count.describe('How many records were skipped.'),
    }),
  ),
  receipt: named(
    'Receipt',
    z
      .object({
        ...recordShape,
        written_off: dollars.describe(
          'The part of the cost that no balance or plan could pay, because the request cost more than estimated.',
        ),
        usage_source: z
          .enum(['reported', 'estimated'])
          .describe('Who counted the tokens: the provider or the gateway.'),
        latency_ms: count.describe('The time from admission to the end, in milliseconds.'),
        buckets: z.array(bucket).describe('Counts that do not overlap, each with its price.'),
        reasoning_tokens: count.describe('The part of the output that was reasoning.'),
        timeline: timeline.nullable().describe('What happened between the admission and the charge.'),
      })
      .describe(
        'A request and how its cost was calculated: the sum of the buckets’ costs, rounded once, is `cost` + `written_off`.',
      ),
  ),
  bodies: named(
    'RequestBodies',
    z
      .object({
        request_id: z.string().describe('The `x-request-id` of the answer.'),
        model: z.string().describe('The listed id of the model.'),
        endpoint: z.string().nullable().describe('The path of the interface; null: none.'),
        failed: z.boolean().describe('Whether the request failed.'),
        kept_at: time.describe('When the bodies were stored.'),
        ends_at: time.describe('When the bodies are removed.'),
        dropped: z.array(z.string()).describe('Members of the request that the upstream’s protocol can’t express.'),
        client_request: body.describe('What the client sent; null if it did not call over REST.'),
        contract_request: body.describe('The request in the form that the gateway uses internally, as JSON.'),
        upstream: z
          .array(
            z.object({
              provider: z.string().describe('The provider’s name.'),
              model: z.string().describe('The provider’s own name of the model.'),
              request: body.describe('What was sent.'),
              answer: body.describe('What came back.'),
            }),
          )
          .describe('The calls to upstreams, oldest first; empty for built-in models.'),
        contract_answer: body.describe(
          'The answer in the form that the gateway uses internally: the items of its choices, as JSON.',
        ),
        client_answer: body.describe('What the client got; null if nothing.'),
      })
      .describe('The bodies of a request, if the operator or the key has them stored.'),
  ),
  analytics: named(
    'Analytics',
    z.object({
      metrics: z.object(sumsShape).describe('The sums of the whole time.'),
      series: z
        .array(
          z.object({
            timestamp: time.describe('When the hour or day begins.'),
            group: z
              .union([z.string(), z.number(), z.null()])
              .describe('What the requests are grouped by; null with `none`.'),
            group_id: id.optional().describe('With `group_by=group`: the id of the group.'),
            rest: z
              .literal(true)
              .optional()
              .describe('With `groups_max`: this is the sum of the groups that are not listed.'),
            ...sumsShape,
          }),
        )
        .describe('The sums of each hour or day, and of each group within it.'),
    }),
  ),
};
