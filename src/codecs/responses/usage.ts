import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { Completed, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { dollarsOf } from '../dollars.ts';
import { countIn, objectIn } from '../json.ts';
import { extraOfUsage, inputBuckets } from '../usage-details.ts';
import { extras } from './extras.ts';

/** Usage: Responses counts cached and written input inside `input_tokens`, the model in buckets that do not overlap. Source: wire.md B2, C3; decisions §6. */

/** What `completed` says, with the cost in dollars. Counts that nobody gave are shown as 0, as the official interface does. */
export function renderUsage({ usage, costNanoUsd }: Completed): JsonObject {
  const write1h = usage?.cacheWrite1hTokens ?? 0;
  const cacheWrite = (usage?.cacheWrite5mTokens ?? 0) + write1h;
  const cached = usage?.cacheReadTokens ?? 0;
  const input = (usage?.inputTokens ?? 0) + cached + cacheWrite;
  const output = usage?.outputTokens ?? 0;
  const rest = extras.members(usage?.extra);
  return {
    ...rest,
    input_tokens: input,
    input_tokens_details: {
      ...objectIn(rest['input_tokens_details']),
      cached_tokens: cached,
      cache_write_tokens: cacheWrite,
      ...(write1h === 0 ? {} : { cache_write_1h_tokens: write1h }),
    },
    output_tokens: output,
    output_tokens_details: {
      ...objectIn(rest['output_tokens_details']),
      reasoning_tokens: usage?.reasoningTokens ?? 0,
    },
    total_tokens: input + output,
    cost: dollarsOf(costNanoUsd),
  };
}

const known = {
  // The gateway's own price is the client's.
  own: new Set([
    'input_tokens',
    'output_tokens',
    'total_tokens',
    'input_tokens_details',
    'output_tokens_details',
    'cost',
  ]),
  inside: {
    input_tokens_details: new Set(['cached_tokens', 'cache_write_tokens', 'cache_write_1h_tokens']),
    output_tokens_details: new Set(['reasoning_tokens']),
  },
};

/**
 * The usage that an upstream reports, in buckets that do not overlap. Undefined where it says nothing that can be true, so that the gateway counts itself. Counts that
 * contradict the whole are left out.
 */
export function parseUsage(value: Json | undefined): Usage | undefined {
  const usage = objectIn(value);
  if (usage === undefined) return undefined;
  const input = countIn(usage['input_tokens']);
  const output = countIn(usage['output_tokens']);
  // No answer is made from nothing: upstreams that send zeros do not count.
  if ((input ?? 0) === 0 && (output ?? 0) === 0) return undefined;
  const reasoning = countIn(objectIn(usage['output_tokens_details'])?.['reasoning_tokens']);
  const details = objectIn(usage['input_tokens_details']) ?? {};
  const extra = extraOfUsage(Protocol.RESPONSES, usage, known);
  return {
    $typeName: 'tollgate.v1.Usage',
    ...inputBuckets(input, countIn(details['cached_tokens']), details),
    ...(output === undefined ? {} : { outputTokens: output }),
    ...(reasoning === undefined || reasoning > (output ?? 0) ? {} : { reasoningTokens: reasoning }),
    ...(extra === undefined ? {} : { extra }),
  };
}
