import type { Variables } from './env.ts';
import { address, secret } from './scalars.ts';
import type { ParsedProvider } from './schema.ts';
import { ConfigError } from './config-error.ts';
import type { Secret } from './secrets.ts';
import { presetModels } from './preset-models.ts';
import type { ProtocolName } from './settings.ts';

/** A provider that environment variables alone can enable. */
export interface Preset {
  /** The name of the provider, which it also has in the price package. The ids of its models begin with it. */
  readonly name: string;
  /** The name for people. */
  readonly title: string;
  readonly protocol: ProtocolName;
  /** The address in the form that the protocol's official client takes; absent: a variable must set it. */
  readonly baseUrl?: string;
  /** The variable with the address; it wins over `baseUrl`. */
  readonly addressVariable?: string;
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
function cloud(name: string, title: string, baseUrl: string, keyVariable: string): Preset {
  return { name, title, protocol: 'chat', baseUrl, keyVariables: [keyVariable] };
}

const local = { protocol: 'chat', addressPath: '/v1', discovery: 'free' } as const;

/** All presets. `docs/providers.md` lists what each was tried against. */
export const presets: readonly Preset[] = [
  cloud('openai', 'OpenAI', 'https://api.openai.com/v1', 'OPENAI_API_KEY'),
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
    protocol: 'chat',
    addressVariable: 'AZURE_OPENAI_ENDPOINT',
    addressPath: '/openai/v1',
    keyVariables: ['AZURE_OPENAI_API_KEY'],
    keyHeader: 'api-key',
  },
  cloud('openrouter', 'OpenRouter', 'https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'),
  cloud('groq', 'Groq', 'https://api.groq.com/openai/v1', 'GROQ_API_KEY'),
  cloud('mistral', 'Mistral', 'https://api.mistral.ai/v1', 'MISTRAL_API_KEY'),
  cloud('deepseek', 'DeepSeek', 'https://api.deepseek.com/v1', 'DEEPSEEK_API_KEY'),
  cloud('x-ai', 'xAI', 'https://api.x.ai/v1', 'XAI_API_KEY'),
  cloud('together', 'Together', 'https://api.together.xyz/v1', 'TOGETHER_API_KEY'),
  {
    ...cloud('fireworks', 'Fireworks', 'https://api.fireworks.ai/inference/v1', 'FIREWORKS_API_KEY'),
    modelPrefix: 'accounts/fireworks/models/',
  },
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

/**
 * Returns the presets that environment variables enable, in the form of the file's providers, except those that the file
 * itself has (`named`). Throws `ConfigError` if a variable has an invalid address.
 */
export function presetProviders(variables: Variables, named: readonly string[]): Record<string, ParsedProvider> {
  const providers: Record<string, ParsedProvider> = {};
  for (const preset of presets) {
    if (named.includes(preset.name)) continue;
    const provider = toProvider(preset, variables);
    if (provider !== undefined) providers[preset.name] = provider;
  }
  return providers;
}

/** The variables that may hold a preset's key. */
export const presetKeyVariables: readonly string[] = presets.flatMap(({ keyVariables = [] }) => keyVariables);

/** Returns the variable (`NAME` or `NAME_FILE`) that has enabled a preset; undefined if none has. */
export function switchedOnBy(name: string, variables: Variables): string | undefined {
  const { addressVariable, keyVariables = [] } = presets.find(preset => preset.name === name) ?? {};
  const names = addressVariable === undefined ? keyVariables : [addressVariable];
  return names.flatMap(each => [each, `${each}_FILE`]).find(each => textIn(variables[each]) !== undefined);
}

function toProvider(preset: Preset, variables: Variables): ParsedProvider | undefined {
  const { addressVariable, keyVariables = [], keyHeader, protocol } = preset;
  const given = addressVariable === undefined ? undefined : textIn(variables[addressVariable]);
  const key = findKey(keyVariables, variables);
  const isOn = addressVariable === undefined ? key !== undefined : given !== undefined;
  if (!isOn) return undefined;
  const baseUrl = given === undefined ? preset.baseUrl : fillAddress(given, preset);
  if (baseUrl === undefined) return undefined;
  return {
    protocol,
    base_url: baseUrl,
    ...(key === undefined || keyHeader !== undefined ? {} : { api_key: [key] }),
    headers: key === undefined || keyHeader === undefined ? {} : { [keyHeader]: key },
    passthrough: 'unpriced',
    queue: 1_000,
    queue_timeout: 30_000,
  };
}

/** Returns the first key that is set. Throws `ConfigError` if it can't be a header value. */
function findKey(names: readonly string[], variables: Variables): Secret | undefined {
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
function fillAddress(given: string, { addressVariable = '', addressPath = '' }: Preset): string {
  const withScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(given)
    ? given
    : `http://${given.startsWith(':') ? '127.0.0.1' : ''}${given}`;
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
