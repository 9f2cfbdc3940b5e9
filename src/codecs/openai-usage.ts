import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from './codec.ts';
import type { ProtocolExtras } from './extras.ts';
import { countIn, objectIn } from './json.ts';
import { parseUsageAs, renderUsageAs, type UsageNames } from './usage-details.ts';

const names: UsageNames = { input: 'prompt_tokens', output: 'completion_tokens' };

/** Usage as Chat Completions and the older Completions say it. */
export class OpenAiUsage {
  readonly #extras: ProtocolExtras;

  constructor(extras: ProtocolExtras) {
    this.#extras = extras;
  }

  /** Returns what `completed` says, with the cost in dollars. */
  render(completed: Completed): JsonObject {
    return renderUsageAs(names, this.#extras, completed);
  }

  /** Returns the usage that an upstream reports; undefined if it says nothing that can be true. */
  parse(value: Json | undefined): Usage | undefined {
    // DeepSeek and Moonshot have their own names for what was read from the cache.
    return parseUsageAs(names, this.#extras, value, (details, usage) =>
      [details['cached_tokens'], usage['prompt_cache_hit_tokens'], usage['cached_tokens']]
        .map(countIn)
        .find(count => count !== undefined),
    );
  }
}

/** Returns what `timings` of llama.cpp count so far; undefined if they don't. */
export function parseTimings(value: Json | undefined): Usage | undefined {
  const timings = objectIn(value);
  const [read, cached, written] = ['prompt_n', 'cache_n', 'predicted_n'].map(name => countIn(timings?.[name]));
  if (written === undefined) return undefined;
  // What it had in its cache is not in `prompt_n`: without that count the input is not known.
  const input = read === undefined || cached === undefined ? {} : { inputTokens: read, cacheReadTokens: cached };
  return { $typeName: 'tollgate.v1.Usage', ...input, outputTokens: written };
}
