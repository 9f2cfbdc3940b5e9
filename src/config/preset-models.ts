/**
 * What the price package does not know about current models: features and output limits. Prices and most context lengths come from
 * the package.
 */

/** A model of a provider. */
export interface PresetModel {
  /** The provider's own name of the model. */
  readonly model: string;
  /** True if the model makes embeddings, false if it generates text. */
  readonly embeds: boolean;
  /** True if the length of its vectors can be chosen. */
  readonly dimensions: boolean;
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  /** Undefined: unknown. */
  readonly maxOutputTokens: number | undefined;
  /** Undefined: the context length of the price package is used, if it has one. */
  readonly contextLength: number | undefined;
}

/**
 * The letters of a row: v reads images, t calls tools, r reasons, f and p have the flex and the priority tier; e
 * makes vectors, d of a requested length.
 */
type Row = readonly [model: string, can: string, maxOutputTokens?: number | undefined, contextLength?: number];

function rows(...list: readonly Row[]): readonly PresetModel[] {
  return list.map(([model, can, maxOutputTokens, contextLength]) => ({
    model,
    embeds: can.includes('e'),
    dimensions: can.includes('d'),
    vision: can.includes('v'),
    functionCall: can.includes('t'),
    reasoning: can.includes('r'),
    serviceTiers: (['flex', 'priority'] as const).filter(tier => can.includes(tier.charAt(0))),
    maxOutputTokens,
    contextLength,
  }));
}

/** The models of each preset, by its name. Sources: the providers' public model pages, and the ids of the price package, 2026-11-21. */
export const presetModels: Readonly<Record<string, readonly PresetModel[]>> = {
  openai: rows(
    ['gpt-6.2-astra', 'vtr', 128_000],
    ['gpt-6.2-sol', 'vtr', 128_000],
    ['gpt-6.1-sol', 'vtr', 128_000],
    ['gpt-6.1-terra', 'vtr', 128_000],
    ['gpt-6-astra', 'vtr', 128_000],
    ['gpt-6-sol', 'vtr'],
    ['gpt-6-luna', 'vtr'],
    ['gpt-5.5', 'vtr'],
    ['gpt-5.4', 'vtr', 128_000],
    ['gpt-5.4-mini', 'vtr', 128_000],
    ['gpt-5.4-nano', 'vtr', 128_000],
    ['gpt-5.2', 'vtrfp', 128_000],
    ['gpt-5.1', 'vtrfp', 128_000],
    ['gpt-5', 'vtrfp', 128_000],
    ['gpt-5-mini', 'vtrfp', 128_000],
    ['gpt-5-nano', 'vtrf', 128_000],
    ['gpt-4.1', 'vtp', 32_768],
    ['gpt-4.1-mini', 'vtp', 32_768],
    ['gpt-4.1-nano', 'vtp', 32_768],
    ['gpt-4o', 'vt', 16_384],
    ['gpt-4o-mini', 'vt', 16_384],
    ['o3', 'vtrf', 100_000],
    ['o4-mini', 'vtrf', 100_000],
    ['text-embedding-3-large', 'ed'],
    ['text-embedding-3-small', 'ed'],
    ['text-embedding-ada-002', 'e'],
  ),
  anthropic: rows(
    ['claude-opus-5-5', 'vtr'],
    ['claude-sonnet-5-5', 'vtr', 128_000],
    ['claude-haiku-5-5', 'vtr', 128_000],
    ['claude-fable-5-1', 'vtr'],
    ['claude-opus-5', 'vtr'],
    ['claude-sonnet-5', 'vtr'],
    ['claude-opus-4-8', 'vtr'],
    ['claude-opus-4-7', 'vtr'],
    ['claude-opus-4-6', 'vtr', 128_000],
    ['claude-sonnet-4-6', 'vtr', 64_000],
    ['claude-opus-4-5', 'vtr', 64_000],
    ['claude-sonnet-4-5', 'vtr', 64_000],
    ['claude-haiku-4-5', 'vtr', 64_000],
    ['claude-opus-4-1', 'vtr', 32_000],
  ),
  google: rows(
    ['gemini-3.8-flash', 'vtr', 65_536],
    ['gemini-3.7-flash', 'vtr', 65_536],
    ['gemini-3.6-flash', 'vtr', 65_536],
    ['gemini-3.5-flash', 'vtr', 65_536],
    ['gemini-3.5-flash-lite', 'vtr', 65_536],
    ['gemini-3.1-pro-preview', 'vtr', 65_536, 1_048_576],
    ['gemini-3.1-flash-lite', 'vtr', 65_536, 1_048_576],
    ['gemini-3-flash-preview', 'vtr', 65_536, 1_048_576],
    ['gemini-2.5-pro', 'vtr', 65_536, 1_048_576],
    ['gemini-2.5-flash', 'vtr', 65_536, 1_048_576],
    ['gemini-2.5-flash-lite', 'vtr', 65_536, 1_048_576],
    ['gemini-embedding-001', 'ed', undefined, 2_048],
    ['gemini-embedding-2', 'ed'],
  ),
  openrouter: rows(
    ['anthropic/claude-sonnet-5', 'vtr'],
    ['anthropic/claude-opus-5', 'vtr'],
    ['anthropic/claude-haiku-4.5', 'vtr', 64_000],
    ['openai/gpt-5', 'vtr', 128_000],
    ['openai/gpt-5-mini', 'vtr', 128_000],
    ['google/gemini-2.5-pro', 'vtr', 65_536],
    ['google/gemini-2.5-flash', 'vtr', 65_536],
    ['deepseek/deepseek-v3.2', 'tr'],
    ['meta-llama/llama-3.3-70b-instruct', 't'],
  ),
  groq: rows(
    ['openai/gpt-oss-120b', 'tr', 65_536],
    ['openai/gpt-oss-20b', 'tr', 65_536],
    ['llama-3.3-70b-versatile', 't', 32_768],
    ['llama-3.1-8b-instant', 't', 131_072],
    ['qwen/qwen3-32b', 'tr', 40_960],
    ['moonshotai/kimi-k2-instruct', 't', 16_384],
    ['meta-llama/llama-4-maverick-17b-128e-instruct', 'vt', 8_192],
    ['meta-llama/llama-4-scout-17b-16e-instruct', 'vt', 8_192],
  ),
  mistral: rows(
    ['mistral-large-2512', 'vt'],
    ['mistral-medium-3-5', 'vt'],
    ['mistral-medium-latest', 'vt'],
    ['mistral-small-latest', 'vtr'],
    ['ministral-8b-2512', 'vt'],
    ['ministral-3b-2512', 'vt'],
    ['devstral-2512', 't'],
    ['codestral-2508', 't'],
    ['mistral-embed', 'e'],
  ),
  deepseek: rows(
    ['deepseek-v4-pro', 'tr'],
    ['deepseek-v4-flash', 'tr'],
    ['deepseek-chat', 't'],
    ['deepseek-reasoner', 'tr'],
  ),
  'x-ai': rows(
    ['grok-4.6', 'vtr'],
    ['grok-4.5', 'vtr'],
    ['grok-4.3', 'vtr'],
    ['grok-4-1-fast-reasoning', 'vtr'],
    ['grok-4-1-fast-non-reasoning', 'vt'],
    ['grok-code-fast-1', 'tr'],
  ),
  together: rows(
    ['meta-llama/Llama-3.3-70B-Instruct-Turbo', 't'],
    ['meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8', 'vt'],
    ['meta-llama/Llama-4-Scout-17B-16E-Instruct', 'vt'],
    ['meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo', 't'],
  ),
  fireworks: rows(
    ['deepseek-v4-pro', 'tr'],
    ['deepseek-v4-flash', 'tr'],
    ['gpt-oss-120b', 'tr'],
    ['gpt-oss-20b', 'tr'],
    ['kimi-k3', 'tr'],
    ['glm-5p2', 'tr'],
    ['minimax-m3', 'tr'],
    ['qwen3p7-plus', 'tr'],
  ),
  cerebras: rows(['gemma-4-31b', 'vt'], ['gpt-oss-120b', 'tr', 40_960]),
  perplexity: rows(['sonar', ''], ['sonar-pro', '', 8_000], ['sonar-reasoning-pro', 'r']),
  cohere: rows(['command-a', 't', 8_000, 256_000], ['command-r7b', 't', 4_000, 128_000], ['embed-v4.0', 'ed']),
  moonshotai: rows(
    ['kimi-k3', 'vtr'],
    ['kimi-k2.7-code', 'tr'],
    ['kimi-k2.7-code-highspeed', 'tr'],
    ['kimi-k2.6', 'vtr'],
    ['kimi-k2.5', 'vtr'],
    ['moonshot-v1-128k', 't'],
  ),
  zai: rows(['GLM-5.3', 'tr', 131_072], ['GLM-5.3-Flash', 'tr', 131_072], ['GLM-5.2', 'tr', 131_072]),
  minimax: rows(['minimax-m3', 'vtr'], ['MiniMax-M2.7', 'tr'], ['MiniMax-M2.7-highspeed', 'tr'], ['MiniMax-M2', 'tr']),
  cloudflare: rows(
    ['@cf/openai/gpt-oss-120b', 'tr'],
    ['@cf/openai/gpt-oss-20b', 'tr'],
    ['@cf/meta/llama-3.3-70b-instruct-fp8-fast', 't'],
    ['@cf/meta/llama-4-scout-17b-16e-instruct', 'vt'],
    ['@cf/moonshotai/kimi-k2.7-code', 'tr'],
    ['@cf/zai-org/glm-5.2', 'tr'],
    ['@cf/qwen/qwen3.8-27b', 'tr'],
    ['@cf/baai/bge-m3', 'e'],
  ),
  baseten: rows(
    ['deepseek-ai/DeepSeek-V4-Pro-0813', 'tr'],
    ['deepseek-ai/DeepSeek-V4-Flash-0731', 'tr'],
    ['moonshotai/Kimi-K3', 'vtr'],
    ['openai/gpt-oss-120b', 'tr'],
    ['zai-org/GLM-5.3', 'tr'],
    ['zai-org/GLM-5.3-Flash', 'tr'],
  ),
  novita: rows(
    ['deepseek/deepseek_v3', 't'],
    ['deepseek/deepseek-r1', 'r'],
    ['meta-llama/llama-3.3-70b-instruct', 't'],
    ['qwen/qwen-2.5-72b-instruct', 't'],
  ),
};
