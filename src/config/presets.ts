import type { Variables } from './env.ts';
import { address, secret } from './scalars.ts';
import { ConfigError } from './config-error.ts';
import type { Secret } from './secrets.ts';
import { presetModels } from './preset-models.ts';
import type { ProtocolName } from './settings.ts';

/** A protocol of which a provider may speak several. */
export type TextProtocol = Exclude<ProtocolName, 'images'>;

/** A provider that environment variables alone can enable. */
export interface Preset {
  /** The name of the provider, which it also has in the price package. The ids of its models begin with it. */
  readonly name: string;
  /** The name for people. */
  readonly title: string;
  /** The protocol for clients whose own it does not speak. */
  readonly protocol: ProtocolName;
  /**
   * The other protocols that its server speaks, in order of preference, each with the text that stands there in place of the `/v1` at the end of the address.
   */
  readonly also?: Readonly<Partial<Record<TextProtocol, string>>>;
  /** The address in the form that the protocol's official client takes; absent: a variable must set it. */
  readonly baseUrl?: string;
  /** The variable with what stands in `baseUrl` as `{account}`. It enables the preset. */
  readonly accountVariable?: string;
  /** The address below which `/rerank` is, if it is not `baseUrl`. */
  readonly rerankUrl?: string;
  /** The variable with the address; it wins over `baseUrl`. */
  readonly addressVariable?: string;
  /** True if an address without a scheme is one of https. */
  readonly isHttps?: true;
  /** The path that is added to an address without a path. */
  readonly addressPath?: string;
  /** The variables that can have the key; the first one that is set counts. Absent: the provider takes no key. */
  readonly keyVariables?: readonly string[];
  /** The header for the key, if it is not the protocol's usual one. */
  readonly keyHeader?: string;
  /** The prefix that the price package has in names of the provider's models. */
  readonly modelPrefix?: string;
  /** Set if the server is queried for its models. `free`: they cost nothing; `priced`: it reports their prices. */
  readonly discovery?: 'free' | 'priced';
  /** Where a queried server describes its models in more detail than in its list: `src/upstreams/server-models.ts`. */
  readonly details?: 'llama_cpp' | 'ollama' | 'lm_studio';
}

/** Returns the preset of a chat provider in the cloud, which is enabled by its key. */
function cloud(name: string, title: string, baseUrl: string, ...keyVariables: string[]): Preset {
  return { name, title, protocol: 'chat', baseUrl, keyVariables };
}

/**
 * Local servers speak only what every version of them speaks: Responses and Messages came later (vLLM, Ollama, llama.cpp, LM Studio), and a version can't be
 * asked for before the first request. The file lists more with `protocols`.
 */
const local = { protocol: 'chat', addressPath: '/v1', discovery: 'free' } as const;

/** All presets. `docs/providers.md` lists what each was tried against. */
export const presets: readonly Preset[] = [
  {
    ...cloud('openai', 'OpenAI', 'https://api.openai.com/v1', 'OPENAI_API_KEY'),
    protocol: 'responses',
    also: { chat: '/v1' },
  },
  {
    ...cloud('anthropic', 'Anthropic', 'https://api.anthropic.com', 'ANTHROPIC_API_KEY'),
    protocol: 'messages',
  },
  {
    name: 'google',
    title: 'Google Gemini',
    protocol: 'gemini',
    baseUrl: 'https://generativelanguage.googleapis.com',
    keyVariables: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
  },
  {
    name: 'azure',
    title: 'Azure OpenAI',
    // Both are below /openai/v1: learn.microsoft.com/azure/foundry/openai/how-to/responses, 2026-11-28.
    protocol: 'responses',
    also: { chat: '/v1' },
    addressVariable: 'AZURE_OPENAI_ENDPOINT',
    addressPath: '/openai/v1',
    keyVariables: ['AZURE_OPENAI_API_KEY'],
    keyHeader: 'api-key',
  },
  cloud('openrouter', 'OpenRouter', 'https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'),
  {
    // Source of Responses: console.groq.com/docs/openai, 2026-11-28.
    ...cloud('groq', 'Groq', 'https://api.groq.com/openai/v1', 'GROQ_API_KEY'),
    also: { responses: '/v1' },
  },
  cloud('mistral', 'Mistral', 'https://api.mistral.ai/v1', 'MISTRAL_API_KEY'),
  {
    // Source of Messages: api-docs.deepseek.com/guides/anthropic_api, 2026-11-28.
    ...cloud('deepseek', 'DeepSeek', 'https://api.deepseek.com/v1', 'DEEPSEEK_API_KEY'),
    also: { messages: '/anthropic' },
  },
  {
    // Responses is "preferred": docs.x.ai/developers/model-capabilities/text/generate-text, 2026-11-28.
    ...cloud('x-ai', 'xAI', 'https://api.x.ai/v1', 'XAI_API_KEY'),
    protocol: 'responses',
    also: { chat: '/v1' },
  },
  cloud('together', 'Together', 'https://api.together.xyz/v1', 'TOGETHER_API_KEY'),
  {
    ...cloud('fireworks', 'Fireworks', 'https://api.fireworks.ai/inference/v1', 'FIREWORKS_API_KEY'),
    // Sources: docs.fireworks.ai/nexus/apis-and-sdks and docs.fireworks.ai/tools-sdks/anthropic-compatibility, 2026-11-28.
    also: { responses: '/v1', messages: '' },
    modelPrefix: 'accounts/fireworks/models/',
  },
  // Sources of the addresses, 2026-11-29: the OpenAI-compatible API in the documentation of each.
  cloud('cerebras', 'Cerebras', 'https://api.cerebras.ai/v1', 'CEREBRAS_API_KEY'),
  cloud('perplexity', 'Perplexity', 'https://api.perplexity.ai', 'PERPLEXITY_API_KEY'),
  {
    ...cloud('cohere', 'Cohere', 'https://api.cohere.ai/compatibility/v1', 'COHERE_API_KEY', 'CO_API_KEY'),
    rerankUrl: 'https://api.cohere.com/v2',
  },
  cloud('deepinfra', 'DeepInfra', 'https://api.deepinfra.com/v1/openai', 'DEEPINFRA_API_KEY', 'DEEPINFRA_TOKEN'),
  cloud('huggingface', 'Hugging Face', 'https://router.huggingface.co/v1', 'HF_TOKEN'),
  cloud('moonshotai', 'Moonshot', 'https://api.moonshot.ai/v1', 'MOONSHOT_API_KEY'),
  cloud('zai', 'Z.ai', 'https://api.z.ai/api/paas/v4', 'ZAI_API_KEY'),
  cloud('minimax', 'MiniMax', 'https://api.minimax.io/v1', 'MINIMAX_API_KEY'),
  cloud('alibaba', 'Alibaba', 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1', 'DASHSCOPE_API_KEY'),
  cloud('nvidia', 'NVIDIA NIM', 'https://integrate.api.nvidia.com/v1', 'NVIDIA_API_KEY'),
  cloud('siliconflow', 'SiliconFlow', 'https://api.siliconflow.com/v1', 'SILICONFLOW_API_KEY'),
  cloud('sambanova', 'SambaNova', 'https://api.sambanova.ai/v1', 'SAMBANOVA_API_KEY'),
  {
    name: 'databricks',
    title: 'Databricks',
    protocol: 'chat',
    addressVariable: 'DATABRICKS_HOST',
    isHttps: true,
    addressPath: '/serving-endpoints',
    keyVariables: ['DATABRICKS_TOKEN'],
  },
  {
    name: 'cloudflare',
    title: 'Cloudflare Workers AI',
    protocol: 'chat',
    baseUrl: 'https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1',
    accountVariable: 'CLOUDFLARE_ACCOUNT_ID',
    keyVariables: ['CLOUDFLARE_API_TOKEN'],
  },
  // Not `GITHUB_TOKEN`, which is set on many machines.
  cloud('github', 'GitHub Models', 'https://models.github.ai/inference', 'GITHUB_MODELS_TOKEN'),
  cloud('baseten', 'Baseten', 'https://inference.baseten.co/v1', 'BASETEN_API_KEY'),
  cloud('novita', 'Novita', 'https://api.novita.ai/openai/v1', 'NOVITA_API_KEY'),
  {
    ...local,
    name: 'ollama',
    title: 'Ollama',
    addressVariable: 'OLLAMA_HOST',
    details: 'ollama',
  },
  {
    ...local,
    name: 'vllm',
    title: 'vLLM',
    addressVariable: 'VLLM_BASE_URL',
    keyVariables: ['VLLM_API_KEY'],
  },
  {
    ...local,
    name: 'llama-cpp',
    title: 'llama.cpp',
    addressVariable: 'LLAMA_CPP_BASE_URL',
    keyVariables: ['LLAMA_CPP_API_KEY'],
    details: 'llama_cpp',
  },
  {
    ...local,
    name: 'lm-studio',
    title: 'LM Studio',
    addressVariable: 'LM_STUDIO_BASE_URL',
    keyVariables: ['LM_STUDIO_API_KEY'],
    details: 'lm_studio',
  },
  {
    name: 'tollgate',
    title: 'another Tollgate',
    protocol: 'chat',
    addressVariable: 'TOLLGATE_UPSTREAM_URL',
    addressPath: '/v1',
    keyVariables: ['TOLLGATE_UPSTREAM_API_KEY'],
    discovery: 'priced',
  },
];

/** The settings of a preset that environment variables have. */
export interface PresetSettings {
  readonly preset: Preset;
  /** True if they enable it. */
  readonly isOn: boolean;
  /** The address of its `protocol`; undefined: none is known. */
  readonly baseUrl: string | undefined;
  readonly apiKeys: readonly Secret[];
  readonly headers: Readonly<Record<string, Secret>>;
}

/**
 * Returns what environment variables say of each preset, by its name. Throws `ConfigError` if a variable has an invalid address or key.
 */
export function readPresets(variables: Variables): ReadonlyMap<string, PresetSettings> {
  return new Map(presets.map(preset => [preset.name, readPreset(preset, variables)]));
}

/** Returns the address of one of a preset's protocols, from that of its `protocol`; undefined: it does not speak it there. */
export function addressOf(preset: Preset, protocol: string, baseUrl: string): string | undefined {
  if (protocol === preset.protocol) return baseUrl;
  const ending = preset.also?.[protocol as TextProtocol];
  if (ending === undefined || ending === '/v1') return ending && baseUrl;
  return baseUrl.endsWith('/v1') ? baseUrl.slice(0, -'/v1'.length) + ending : undefined;
}

/** The variable with Bedrock's key. */
export const bedrockKeyVariable = 'AWS_BEARER_TOKEN_BEDROCK';

/** The variables that may hold a preset's or a cloud's key. */
export const presetKeyVariables: readonly string[] = [
  ...presets.flatMap(({ keyVariables = [] }) => keyVariables),
  bedrockKeyVariable,
  'AZURE_CLIENT_SECRET',
];

/** Returns the variable (`NAME` or `NAME_FILE`) that has enabled a preset; undefined if none has. */
export function switchedOnBy(name: string, variables: Variables): string | undefined {
  const { addressVariable, accountVariable, keyVariables = [] } = presets.find(preset => preset.name === name) ?? {};
  const own = addressVariable ?? accountVariable;
  const names = own === undefined ? keyVariables : [own];
  return names.flatMap(each => [each, `${each}_FILE`]).find(each => textIn(variables[each]) !== undefined);
}

function readPreset(preset: Preset, variables: Variables): PresetSettings {
  const { addressVariable, accountVariable, keyVariables = [], keyHeader } = preset;
  const own = addressVariable ?? accountVariable;
  const given = own === undefined ? undefined : textIn(variables[own]);
  const key = findKey(keyVariables, variables);
  return {
    preset,
    isOn: (own === undefined ? key : given) !== undefined,
    baseUrl: readAddress(preset, given),
    apiKeys: key === undefined || keyHeader !== undefined ? [] : [key],
    headers: key === undefined || keyHeader === undefined ? {} : { [keyHeader]: key },
  };
}

function readAddress(preset: Preset, given: string | undefined): string | undefined {
  const { baseUrl, accountVariable } = preset;
  if (accountVariable !== undefined) return given && baseUrl?.replace('{account}', encodeURIComponent(given));
  return given === undefined ? baseUrl : fillAddress(given, preset);
}

/** Returns the first key that is set. Throws `ConfigError` if it can't be a header value. */
export function findKey(names: readonly string[], variables: Variables): Secret | undefined {
  for (const name of names) {
    const text = textIn(variables[name]);
    if (text === undefined) continue;
    const parsed = secret.safeParse(text);
    if (parsed.success) return parsed.data;
    throw new ConfigError([
      { path: name, message: 'has a character that no key can have: a line break, or one that is not ASCII' },
    ]);
  }
  return undefined;
}

function textIn(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === '' ? undefined : value.trim();
}

/**
 * Completes an address. As in the servers' own tools, the scheme and the path may be missing, and 0.0.0.0, on which a
 * server may listen, becomes the local host.
 */
function fillAddress(given: string, { addressVariable = '', addressPath = '', isHttps }: Preset): string {
  const scheme = isHttps === true ? 'https' : 'http';
  const withScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(given)
    ? given
    : `${scheme}://${given.startsWith(':') ? '127.0.0.1' : ''}${given}`;
  const parsed = address.safeParse(withScheme.replace('//0.0.0.0', '//127.0.0.1'));
  if (!parsed.success) {
    throw new ConfigError([
      {
        path: addressVariable,
        message: 'must be an http:// or https:// address without credentials, query or fragment',
      },
    ]);
  }
  const url = new URL(parsed.data);
  const isOllama = addressVariable === 'OLLAMA_HOST';
  if (isOllama && url.port === '' && !/^https?:/i.test(given)) url.port = '11434';
  if (url.pathname === '/') url.pathname = addressPath;
  return url.href.replace(/\/+$/, '');
}

/** Returns the ids of the models of enabled presets, which the rest of the file may refer to. */
export function presetModelIds(names: readonly string[]): string[] {
  return names.flatMap(name => (presetModels[name] ?? []).map(({ model }) => `${name}/${model}`));
}

/** Returns the preset whose server is at an address: by its host, or by the provider's name for presets without a fixed address; undefined: none. */
export function findServer(name: string, baseUrl: string): string | undefined {
  const { host } = new URL(baseUrl);
  const own = presets.find(preset => preset.baseUrl !== undefined && new URL(preset.baseUrl).host === host);
  return (own ?? presets.find(preset => preset.name === name && preset.baseUrl === undefined))?.name;
}
