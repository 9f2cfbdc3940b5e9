import type { Completed, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { TierFields } from '../../generation/service-tier.ts';
import type { JsonObject } from '../codec.ts';
import { toDollars } from '../dollars.ts';
import { countIn, defined, objectIn, objectsIn } from '../json.ts';
import { renderServiceTier } from '../service-tier.ts';
import { unknownCounters, usageCounters } from '../usage-counters.ts';
import { extras } from './extras.ts';

/**
 * Converts usage. As in the contract, `input_tokens` does not include input that was read from or written to a cache. Source:
 * docs/interfaces/messages.md "Stream", "Usage"; docs/accounting.md "Usage".
 */

/** Returns counts with all their fields; missing counts are 0. `tier`: the requested tier, or the charged one. */
export function renderCounts(usage: Usage | undefined, tier: TierFields): JsonObject {
  const write5m = usage?.cacheWrite5mTokens ?? 0;
  const write1h = usage?.cacheWrite1hTokens ?? 0;
  return {
    input_tokens: usage?.inputTokens ?? 0,
    output_tokens: usage?.outputTokens ?? 0,
    cache_creation_input_tokens: write5m + write1h,
    cache_read_input_tokens: usage?.cacheReadTokens ?? 0,
    cache_creation: { ephemeral_5m_input_tokens: write5m, ephemeral_1h_input_tokens: write1h },
    output_tokens_details: { thinking_tokens: usage?.reasoningTokens ?? 0 },
    service_tier: renderServiceTier(tier, 'standard'),
    // Last: with `iterations`, they contain the counts that the provider showed, which are less than the charged ones.
    ...extras.members(usage?.extra),
  };
}

/** Renders the usage of `completed`, with the cost in dollars. */
export function renderUsage(completed: Completed): JsonObject {
  return { ...renderCounts(completed.usage, completed), cost: toDollars(completed.costNanoUsd) };
}

const known = new Set([
  'input_tokens',
  'output_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'cache_creation',
  'output_tokens_details',
  'service_tier',
  // Not passed on: the client gets the gateway's cost.
  'cost',
]);

/**
 * Parses an upstream's usage into buckets that do not overlap. `members`: those of all its reports so far; later values replace earlier
 * ones. Returns undefined if no count is plausible; the gateway then counts itself.
 */
export function parseUsage(members: JsonObject): Usage | undefined {
  const parsed = parseAll(members);
  if (parsed !== undefined) parsed.unpriced = listUnpriced(members);
  return parsed;
}

function parseAll(members: JsonObject): Usage | undefined {
  const summed = sumCounts(objectsIn(members['iterations']));
  if (summed === undefined) return parseCounts(members, extras.unknown(members, known));
  // Only clients of this protocol see which pass had which tokens, so only they see the counts beside them as the provider showed them.
  const { service_tier: _, cost: __, ...shown } = members;
  return parseCounts({ ...members, ...summed }, extras.of(shown));
}

/**
 * Returns the sum of the passes of an answer (`usage.iterations`: compaction, advisor, fallback, message), which the provider bills although the counts beside them contain only some of them; undefined if they have no tokens.
 * Source: `BetaUsage` of @anthropic-ai/sdk 1.11.0.
 */
function sumCounts(passes: readonly JsonObject[]): JsonObject | undefined {
  const sum = (read: (pass: JsonObject) => number | undefined): number =>
    passes.reduce((total, pass) => total + (read(pass) ?? 0), 0);
  const of = (name: string): number => sum(pass => countIn(pass[name]));
  const ofCache = (name: string): number => sum(pass => countIn(objectIn(pass['cache_creation'])?.[name]));
  const [input, output] = [of('input_tokens'), of('output_tokens')];
  const [read, written] = [of('cache_read_input_tokens'), of('cache_creation_input_tokens')];
  if (input + output + read + written === 0) return undefined;
  return {
    input_tokens: input,
    output_tokens: output,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: written,
    cache_creation: {
      ephemeral_5m_input_tokens: ofCache('ephemeral_5m_input_tokens'),
      ephemeral_1h_input_tokens: ofCache('ephemeral_1h_input_tokens'),
    },
  };
}

/** Returns the counters without a price, those of passes too; `usage.iterations` if another model made one of them, because the whole is charged at the price of the requested one. */
function listUnpriced(members: JsonObject): string[] {
  const unpriced = unknownCounters(members, usageCounters.messages);
  const passes = objectsIn(members['iterations']);
  if (passes.some(({ model }) => typeof model === 'string')) unpriced.push('usage.iterations');
  for (const pass of passes) {
    const unknown = unknownCounters(pass, usageCounters.messages).map(name =>
      name.replace('usage.', 'usage.iterations.'),
    );
    unpriced.push(...unknown.filter(name => !unpriced.includes(name)));
  }
  return unpriced;
}

function parseCounts(members: JsonObject, extra: Usage['extra']): Usage | undefined {
  const input = countIn(members['input_tokens']);
  const output = countIn(members['output_tokens']);
  const read = countIn(members['cache_read_input_tokens']);
  const written = readWritten(members);
  const inputs = [input, read, written.cacheWrite5mTokens, written.cacheWrite1hTokens];
  // Every answer has tokens, so an upstream that reports only zeros does not count them.
  if (inputs.every(count => (count ?? 0) === 0) && (output ?? 0) === 0) return undefined;
  const thinking = countIn(objectIn(members['output_tokens_details'])?.['thinking_tokens']);
  // There is no total, so more reasoning than output is beside the output.
  const beside = thinking !== undefined && output !== undefined && thinking > output ? thinking : 0;
  return {
    $typeName: 'tollgate.v1.Usage',
    unpriced: [],
    ...written,
    ...defined({
      inputTokens: input,
      cacheReadTokens: read,
      outputTokens: output === undefined ? undefined : output + beside,
      reasoningTokens: output === undefined ? undefined : thinking,
      extra,
    }),
  };
}

/** Returns the tokens written to a cache; those without a lifetime count as written for five minutes (docs/accounting.md "Usage"). */
function readWritten(members: JsonObject): Pick<Usage, 'cacheWrite5mTokens' | 'cacheWrite1hTokens'> {
  const split = objectIn(members['cache_creation']);
  const write1h = countIn(split?.['ephemeral_1h_input_tokens']) ?? 0;
  const total = countIn(members['cache_creation_input_tokens']) ?? countIn(split?.['ephemeral_5m_input_tokens']);
  if (total === undefined) return write1h === 0 ? {} : { cacheWrite1hTokens: write1h };
  const hasTotal = countIn(members['cache_creation_input_tokens']) !== undefined;
  const write5m = hasTotal ? Math.max(0, total - write1h) : total;
  return { cacheWrite5mTokens: write5m, ...(write1h === 0 ? {} : { cacheWrite1hTokens: write1h }) };
}
