import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from './codec.ts';
import { toDollars } from './dollars.ts';
import type { ProtocolExtras } from './extras.ts';
import { countIn, defined, objectIn, unknownMembers } from './json.ts';
import { unknownCounters, usageCounters } from './usage-counters.ts';

/**
 * Converts usage of Chat Completions and Responses, in which tokens read from and written to a cache are part of the input, to and from the
 * contract's buckets, which do not overlap.
 * Source: docs/interfaces/chat-completions.md "Stream"; docs/interfaces/responses.md "Stream";
 * docs/interfaces/README.md "Translation"; docs/accounting.md "Usage"; translation cases US-02 to US-18.
 */

/** The names that a protocol gives to its counts, and to the members that contain details of them. */
export interface UsageNames {
  readonly input: 'prompt_tokens' | 'input_tokens';
  readonly output: 'completion_tokens' | 'output_tokens';
  /** A constant, not made from `input`, because V8 looks up computed names more slowly. */
  readonly inputDetails: 'prompt_tokens_details' | 'input_tokens_details';
  readonly outputDetails: 'completion_tokens_details' | 'output_tokens_details';
}

/**
 * Renders the usage of `completed`, with the cost in dollars. Missing counts are 0, as in OpenAI's interfaces.
 */
export function renderUsageAs(names: UsageNames, extras: ProtocolExtras, completed: Completed): JsonObject {
  const { usage } = completed;
  const write1h = usage?.cacheWrite1hTokens ?? 0;
  const cacheWrite = (usage?.cacheWrite5mTokens ?? 0) + write1h;
  const cached = usage?.cacheReadTokens ?? 0;
  const input = (usage?.inputTokens ?? 0) + cached + cacheWrite;
  const output = usage?.outputTokens ?? 0;
  const rest = extras.members(usage?.extra);
  const { inputDetails, outputDetails } = names;
  const read: JsonObject = { ...objectIn(rest[inputDetails]), cached_tokens: cached, cache_write_tokens: cacheWrite };
  if (write1h > 0) read['cache_write_1h_tokens'] = write1h;
  // `rest` is changed, because in a literal V8 takes a microsecond for such names.
  rest[names.input] = input;
  rest[names.output] = output;
  rest['total_tokens'] = input + output;
  rest[inputDetails] = read;
  rest[outputDetails] = { ...objectIn(rest[outputDetails]), reasoning_tokens: usage?.reasoningTokens ?? 0 };
  rest['cost'] = toDollars(completed.costNanoUsd);
  return rest;
}

/** Members that are not passed on as unknown ones. `cost` is among them although it is not read, because the gateway reports its own. */
const known: Readonly<Record<UsageNames['input'], ReadonlySet<string>>> = {
  prompt_tokens: new Set(
    'prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details cost'.split(' '),
  ),
  input_tokens: new Set(
    'input_tokens output_tokens total_tokens input_tokens_details output_tokens_details cost'.split(' '),
  ),
};
const knownDetails: Readonly<Record<'input' | 'output', ReadonlySet<string>>> = {
  input: new Set(['cached_tokens', 'cache_write_tokens', 'cache_write_1h_tokens']),
  output: new Set(['reasoning_tokens']),
};

/**
 * Returns the usage that an upstream reports. Undefined if it reports nothing plausible; the gateway then counts itself. `cachedIn` returns the tokens read from a cache.
 */
export function parseUsageAs(
  names: UsageNames,
  extras: ProtocolExtras,
  value: Json | undefined,
  cachedIn: (details: JsonObject, usage: JsonObject) => number | undefined,
): Usage | undefined {
  const usage = objectIn(value);
  if (usage === undefined) return undefined;
  const input = countIn(usage[names.input]);
  const output = countIn(usage[names.output]);
  // Every answer has tokens, so an upstream that reports only zeros does not count them.
  if ((input ?? 0) === 0 && (output ?? 0) === 0) return undefined;
  const details = objectIn(usage[names.inputDetails]) ?? {};
  const parsed: Usage = { $typeName: 'tollgate.v1.Usage', unpriced: [] };
  const cached = cachedIn(details, usage);
  const all = (input ?? 0) + (isBeside(input ?? 0, cached) ? cached : 0);
  Object.assign(parsed, inputBuckets(input, cached, details), outputBuckets(output, usage, names, all));
  const extra = readUsageExtra(names, extras, usage);
  if (extra !== undefined) {
    parsed.extra = extra;
    parsed.unpriced = unknownCounters(usage, usageCounters.openai);
  }
  return parsed;
}

/**
 * Returns the input in buckets. `whole`: the reported input, absent if not reported; `cached`: tokens read from a cache, absent if not reported; `details`: contains the tokens written to it.
 * More cached tokens than input are beside the input (xAI's models at Azure report them so); written tokens that overlap with cached ones are capped, so that the sum is the input.
 */
function inputBuckets(whole: number | undefined, cached: number | undefined, details: JsonObject): Partial<Usage> {
  if (whole === undefined) return {};
  const uncached = isBeside(whole, cached) ? whole : whole - (cached ?? 0);
  const reported = countIn(details['cache_write_tokens']);
  const written = reported === undefined ? undefined : Math.min(reported, uncached);
  const written1h = Math.min(countIn(details['cache_write_1h_tokens']) ?? 0, written ?? 0);
  return defined({
    inputTokens: uncached - (written ?? 0),
    cacheReadTokens: cached,
    cacheWrite5mTokens: written === undefined ? undefined : written - written1h,
    cacheWrite1hTokens: written1h === 0 ? undefined : written1h,
  });
}

/** Returns whether a part that is reported of a whole is not contained in it, because it is larger. */
function isBeside(whole: number, part: number | undefined): part is number {
  return part !== undefined && part > whole;
}

/**
 * Returns the output in buckets. Reasoning is part of the reported output (translation case US-18), unless the total shows that it was counted separately, or it is more than the output and
 * there is no total; then it is added. More reasoning than output that the total does not contain is capped. `input`: all tokens of the input.
 */
function outputBuckets(
  output: number | undefined,
  usage: JsonObject,
  names: UsageNames,
  input: number,
): Partial<Usage> {
  if (output === undefined) return {};
  const reasoning = countIn(objectIn(usage[names.outputDetails])?.['reasoning_tokens']);
  const total = countIn(usage['total_tokens']);
  const rest = total === undefined ? 0 : total - input - output;
  if (reasoning === undefined || reasoning === 0) {
    // Gemini's Chat interface counts reasoning only in the total (recorded, 2025).
    const hidden = rest > 0 ? { outputTokens: output + rest, reasoningTokens: rest } : { outputTokens: output };
    return { ...(reasoning === undefined ? {} : { reasoningTokens: reasoning }), ...hidden };
  }
  const isSeparate = total === undefined ? reasoning > output : rest === reasoning;
  if (isSeparate) return { outputTokens: output + reasoning, reasoningTokens: reasoning };
  return { outputTokens: output, reasoningTokens: Math.min(reasoning, output) };
}

/** Returns the members of a usage that the contract has no field for. */
function readUsageExtra(names: UsageNames, extras: ProtocolExtras, usage: JsonObject): Usage['extra'] {
  const rest = unknownMembers(usage, known[names.input]);
  const input = unknownDetails(usage[names.inputDetails], knownDetails.input);
  const output = unknownDetails(usage[names.outputDetails], knownDetails.output);
  if (rest === undefined && input === undefined && output === undefined) return undefined;
  const all: Record<string, unknown> = rest ?? {};
  if (input !== undefined) all[names.inputDetails] = input;
  if (output !== undefined) all[names.outputDetails] = output;
  return extras.of(all);
}

function unknownDetails(value: Json | undefined, names: ReadonlySet<string>): object | undefined {
  const details = objectIn(value);
  return details === undefined ? undefined : unknownMembers(details, names);
}
