import type { Completed, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { countIn, objectIn } from '../json.ts';
import { parseUsageAs, renderUsageAs, type UsageNames } from '../usage-details.ts';
import { extras } from './extras.ts';

const names: UsageNames = { input: 'prompt_tokens', output: 'completion_tokens' };

/** What `completed` says, as Chat's usage with the cost in dollars. */
export function renderUsage(completed: Completed): JsonObject {
  return renderUsageAs(names, extras, completed);
}

/** What `timings` of llama.cpp count so far; undefined if they don't. */
export function parseTimings(value: Json | undefined): Usage | undefined {
  const timings = objectIn(value);
  const [read, cached, written] = ['prompt_n', 'cache_n', 'predicted_n'].map(name => countIn(timings?.[name]));
  if (written === undefined) return undefined;
  // What it had in its cache is not in `prompt_n`: without that count the input is not known.
  const input = read === undefined || cached === undefined ? {} : { inputTokens: read, cacheReadTokens: cached };
  return { $typeName: 'tollgate.v1.Usage', ...input, outputTokens: written };
}

/** The usage that an upstream reports; undefined if it says nothing that can be true. */
export function parseUsage(value: Json | undefined): Usage | undefined {
  // DeepSeek and Moonshot have their own names for what was read from the cache.
  return parseUsageAs(names, extras, value, (details, usage) =>
    [details['cached_tokens'], usage['prompt_cache_hit_tokens'], usage['cached_tokens']]
      .map(countIn)
      .find(count => count !== undefined),
  );
}
