import type { JsonValue } from '@bufbuild/protobuf';

/**
 * The counters of tokens in providers' usage that are charged, or that are parts of charged ones; details by their path. Any other one may be billed without a price here. Source: the recorded exchanges
 * of 2024 to 2026, and the types of `openai` 7.59, `@anthropic-ai/sdk` 1.11 and `@google/genai` 3.3.
 */
export const usageCounters = {
  /** Chat, Responses, completions, embeddings. Audio is missing: it has its own price at each provider. */
  openai: new Set([
    'prompt_tokens',
    'completion_tokens',
    'input_tokens',
    'output_tokens',
    'total_tokens',
    'cached_tokens',
    'num_cached_tokens',
    'prompt_cache_hit_tokens',
    'prompt_cache_miss_tokens',
    ...['prompt_tokens_details', 'input_tokens_details'].flatMap(details =>
      ['cached_tokens', 'cache_write_tokens', 'cache_write_1h_tokens', 'text_tokens', 'image_tokens'].map(
        name => `${details}.${name}`,
      ),
    ),
    ...['completion_tokens_details', 'output_tokens_details'].flatMap(details =>
      ['reasoning_tokens', 'text_tokens', 'accepted_prediction_tokens', 'rejected_prediction_tokens'].map(
        name => `${details}.${name}`,
      ),
    ),
    // xAI: the tokens of the last pass.
    'context_details.input_tokens',
    'context_details.output_tokens',
  ]),
  messages: new Set([
    'input_tokens',
    'output_tokens',
    'cache_creation_input_tokens',
    'cache_read_input_tokens',
    'cache_creation.ephemeral_5m_input_tokens',
    'cache_creation.ephemeral_1h_input_tokens',
    'output_tokens_details.thinking_tokens',
  ]),
  gemini: new Set([
    'promptTokenCount',
    'candidatesTokenCount',
    'cachedContentTokenCount',
    'thoughtsTokenCount',
    'toolUsePromptTokenCount',
    'totalTokenCount',
  ]),
} as const satisfies Readonly<Record<string, ReadonlySet<string>>>;

type JsonObject = { readonly [name: string]: JsonValue | undefined };

/** Names of counters of tokens, not of what they cost, how long they took or how many are allowed. */
const counterName = /tokens?(_?count)?$/i;
/** How deep counters are searched. */
const depthMax = 3;

/** Returns the counters of tokens in a usage that are not known and not 0, as `usage.MEMBER`. Lists are not searched: they divide what is counted beside them. */
export function unknownCounters(usage: JsonObject, known: ReadonlySet<string>, path = '', depth = 1): string[] {
  const found: string[] = [];
  for (const name in usage) {
    const value = usage[name];
    if (typeof value === 'number') {
      if (value > 0 && Number.isInteger(value) && counterName.test(name) && !known.has(path + name))
        found.push(`usage.${path}${name}`);
    } else if (typeof value === 'object' && value !== null && !Array.isArray(value) && depth < depthMax)
      found.push(...unknownCounters(value, known, `${path}${name}.`, depth + 1));
  }
  return found;
}
