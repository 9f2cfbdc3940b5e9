import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from './codec.ts';
import { toDollars } from './dollars.ts';
import type { ProtocolExtras } from './extras.ts';
import { countIn, defined, objectIn, unknownMembers } from './json.ts';

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
 * Returns the usage that an upstream reports. Undefined if it reports nothing plausible; the gateway then counts itself. Counts that
 * contradict the total are left out. `cachedIn` returns the tokens read from a cache.
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
  const parsed: Usage = { $typeName: 'tollgate.v1.Usage' };
  Object.assign(parsed, inputBuckets(input, cachedIn(details, usage), details), outputBuckets(output, usage, names));
  const extra = readUsageExtra(names, extras, usage);
  if (extra !== undefined) parsed.extra = extra;
  return parsed;
}

/**
 * Returns the input in buckets. `whole`: all tokens of the input, absent if not reported; `cached`: tokens read from a cache, absent if not reported; `details`: contains the tokens written to it.
 * Counts that exceed the total are left out.
 */
function inputBuckets(whole: number | undefined, cached: number | undefined, details: JsonObject): Partial<Usage> {
  if (whole === undefined) return {};
  const written = countIn(details['cache_write_tokens']);
  const rest = whole - (cached ?? 0) - (written ?? 0);
  if (rest < 0) return { inputTokens: whole };
  const written1h = Math.min(countIn(details['cache_write_1h_tokens']) ?? 0, written ?? 0);
  return defined({
    inputTokens: rest,
    cacheReadTokens: cached,
    cacheWrite5mTokens: written === undefined ? undefined : written - written1h,
    cacheWrite1hTokens: written1h === 0 ? undefined : written1h,
  });
}

/**
 * Returns the output in buckets. Reasoning is part of the reported output (translation case US-18), unless the total of a Chat upstream shows that it was
 * counted separately; then it is added.
 */
function outputBuckets(output: number | undefined, usage: JsonObject, names: UsageNames): Partial<Usage> {
  if (output === undefined) return {};
  const reasoning = countIn(objectIn(usage[names.outputDetails])?.['reasoning_tokens']);
  if (reasoning === undefined) return { outputTokens: output };
  const total = (countIn(usage[names.input]) ?? 0) + output + reasoning;
  if (names.output === 'completion_tokens' && reasoning > 0 && countIn(usage['total_tokens']) === total) {
    return { outputTokens: output + reasoning, reasoningTokens: reasoning };
  }
  return { outputTokens: output, ...(reasoning > output ? {} : { reasoningTokens: reasoning }) };
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
