import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from './codec.ts';
import type { ProtocolExtras } from './extras.ts';
import { countIn, objectIn } from './json.ts';
import { parseUsageAs, renderUsageAs, type UsageNames } from './usage-details.ts';

const names: UsageNames = {
  input: 'prompt_tokens',
  output: 'completion_tokens',
  inputDetails: 'prompt_tokens_details',
  outputDetails: 'completion_tokens_details',
};

/** Converts usage to and from the format of Chat Completions and of the older Completions. */
export class OpenAiUsage {
  readonly #extras: ProtocolExtras;

  constructor(extras: ProtocolExtras) {
    this.#extras = extras;
  }

  /** Renders the usage of `completed`, with the cost in dollars. */
  render(completed: Completed): JsonObject {
    return renderUsageAs(names, this.#extras, completed);
  }

  /** Returns the usage that an upstream reports; undefined if it has no valid count. */
  parse(value: Json | undefined): Usage | undefined {
    return parseUsageAs(names, this.#extras, value, cachedIn);
  }
}

/** Returns the tokens read from a cache; DeepSeek and Moonshot have other names for them. */
function cachedIn(details: JsonObject, usage: JsonObject): number | undefined {
  const own = countIn(details['cached_tokens']);
  return own ?? countIn(usage['prompt_cache_hit_tokens']) ?? countIn(usage['cached_tokens']);
}

/** Returns the usage so far from llama.cpp's `timings`; undefined if there is no count of output tokens. */
export function parseTimings(value: Json | undefined): Usage | undefined {
  const timings = objectIn(value);
  const [read, cached, output] = ['prompt_n', 'cache_n', 'predicted_n'].map(name => countIn(timings?.[name]));
  if (output === undefined) return undefined;
  // `prompt_n` excludes cached tokens, so without `cache_n` the input is unknown.
  const input = read === undefined || cached === undefined ? {} : { inputTokens: read, cacheReadTokens: cached };
  return { $typeName: 'tollgate.v1.Usage', unpriced: [], ...input, outputTokens: output };
}
