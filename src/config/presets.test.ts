import { describe, expect, test } from 'vitest';
import { toDiscoveredModels } from './discovered-models.ts';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './config.ts';
import type { Variables } from './env.ts';
import { toPricing, withPresetModels } from './preset-catalogue.ts';
import { presetModels } from './preset-models.ts';
import { type Preset, presets, findServer } from './presets.ts';

const load = (variables: Variables, text = '') => parseConfig('', text, { variables, builtInIds: [] });
const loadProviders = (variables: Variables, text = ''): unknown =>
  load(variables, text).providers.map(({ name, protocol, baseUrl, preset }) => [name, protocol, baseUrl, preset]);

describe('providers', () => {
  test('without keys there are none', () => {
    expect(loadProviders({ OPENAI_API_KEY: '' })).toEqual([]);
  });

  test('a key enables its provider, with the name, protocol and address of the preset', () => {
    const variables = {
      OPENAI_API_KEY: 'sk-1',
      ANTHROPIC_API_KEY: 'sk-2',
      GOOGLE_API_KEY: 'sk-3',
      XAI_API_KEY: 'sk-4',
    };
    expect(loadProviders(variables)).toEqual([
      ['openai', 'responses', 'https://api.openai.com/v1', 'openai'],
      ['anthropic', 'messages', 'https://api.anthropic.com', 'anthropic'],
      ['google', 'gemini', 'https://generativelanguage.googleapis.com', 'google'],
      ['x-ai', 'responses', 'https://api.x.ai/v1', 'x-ai'],
    ]);
    expect(load(variables).providers.map(({ apiKeys }) => apiKeys.map(key => key.reveal()))).toEqual([
      ['sk-1'],
      ['sk-2'],
      ['sk-3'],
      ['sk-4'],
    ]);
  });

  test('if several variables can have a key, the first one that is set counts', () => {
    const [google] = load({ GOOGLE_API_KEY: 'second', GEMINI_API_KEY: 'first' }).providers;
    expect(google?.apiKeys.map(key => key.reveal())).toEqual(['first']);
  });

  test('Azure takes its key in a header of its own, below the address of the resource', () => {
    const [azure] = load({
      AZURE_OPENAI_ENDPOINT: 'https://acme.openai.azure.com/',
      AZURE_OPENAI_API_KEY: 'k',
    }).providers;
    expect(azure).toMatchObject({ baseUrl: 'https://acme.openai.azure.com/openai/v1', apiKeys: [] });
    expect(azure?.headers['api-key']?.reveal()).toBe('k');
  });

  test.each([
    ['127.0.0.1:11434', 'http://127.0.0.1:11434/v1'],
    ['0.0.0.0', 'http://127.0.0.1:11434/v1'],
    [':11434', 'http://127.0.0.1:11434/v1'],
    ['http://models.lan:8080', 'http://models.lan:8080/v1'],
    ['https://models.example/ollama/v1/', 'https://models.example/ollama/v1'],
  ])('OLLAMA_HOST=%s is %s', (given, baseUrl) => {
    expect(loadProviders({ OLLAMA_HOST: given })).toEqual([['ollama', 'chat', baseUrl, 'ollama']]);
  });

  test('a variable whose value is not an address is refused, and the error names the variable', () => {
    expect(() => load({ VLLM_BASE_URL: 'ftp://x' })).toThrow(ConfigError);
    expect(() => load({ VLLM_BASE_URL: 'http://user:pw@x' })).toThrow(/^VLLM_BASE_URL: must be/);
  });

  test.each(['sk-1\nx-evil: 1', 'sk-ключ', 'a\0b'])(
    'a key that can’t stand in a header is refused by its name, not shown: %j',
    key => {
      expect(() => load({ OPENAI_API_KEY: key })).toThrow(
        /^OPENAI_API_KEY: has a character that no key can have[^\n]*$/,
      );
      expect(() => load({ AZURE_OPENAI_ENDPOINT: 'https://a.example', AZURE_OPENAI_API_KEY: key })).toThrow(
        /^AZURE_OPENAI_API_KEY: has/,
      );
    },
  );

  test('blanks around a key are not part of it', () => {
    expect(load({ OPENAI_API_KEY: ' sk-1\n' }).providers[0]?.apiKeys.map(key => key.reveal())).toEqual(['sk-1']);
  });

  test('models of the file may be routed to presets', () => {
    const text = 'models: [{ id: a/b, pricing: { input: 1, output: 1 }, routes: [{ provider: groq, model: m }] }]';
    expect(loadProviders({ GROQ_API_KEY: 'g' }, text)).toEqual([
      ['groq', 'chat', 'https://api.groq.com/openai/v1', 'groq'],
    ]);
  });

  const spoken = (variables: Variables, text = ''): unknown =>
    load(variables, text).providers.map(({ protocol, baseUrl, others = [] }) =>
      [{ protocol, baseUrl }, ...others].map(each => `${each.protocol} ${each.baseUrl}`),
    );

  test('presets speak the protocols that their servers offer, in order of preference', () => {
    const openai = 'https://api.openai.com/v1';
    expect(spoken({ OPENAI_API_KEY: 'k' })).toEqual([[`responses ${openai}`, `chat ${openai}`]]);
    expect(spoken({ AZURE_OPENAI_ENDPOINT: 'https://a.example' })).toEqual([
      ['responses https://a.example/openai/v1', 'chat https://a.example/openai/v1'],
    ]);
    expect(spoken({ DEEPSEEK_API_KEY: 'k' })).toEqual([
      ['chat https://api.deepseek.com/v1', 'messages https://api.deepseek.com/anthropic'],
    ]);
    expect(spoken({ FIREWORKS_API_KEY: 'k' })).toEqual([
      [
        'chat https://api.fireworks.ai/inference/v1',
        'responses https://api.fireworks.ai/inference/v1',
        'messages https://api.fireworks.ai/inference',
      ],
    ]);
    expect(spoken({ ANTHROPIC_API_KEY: 'k' })).toEqual([['messages https://api.anthropic.com']]);
    expect(spoken({ VLLM_BASE_URL: 'http://a.example' })).toEqual([['chat http://a.example/v1']]);
  });

  const here = 'http://a.example/v1';
  test.each([
    ['{ protocol: chat }', ['chat https://api.openai.com/v1']],
    [`{ base_url: "${here}" }`, [`responses ${here}`, `chat ${here}`]],
    [`{ protocol: messages, base_url: "${here}" }`, [`messages ${here}`]],
    [`{ protocols: { chat: "${here}" } }`, [`chat ${here}`]],
    [`{ protocols: { messages: "${here}", chat: "${here}" } }`, [`chat ${here}`, `messages ${here}`]],
    [
      `{ protocol: messages, protocols: { chat: "${here}", messages: "${here}/m" } }`,
      [`messages ${here}/m`, `chat ${here}`],
    ],
    ['{ api_key: own }', ['responses https://api.openai.com/v1', 'chat https://api.openai.com/v1']],
  ])('the file overrides protocols, address and key of a preset: %s', async (entry, expected) => {
    const text = `providers: { openai: ${entry} }`;
    expect(spoken({ OPENAI_API_KEY: 'k' }, text)).toEqual([expected]);
    const { models } = await withPresetModels(load({ OPENAI_API_KEY: 'k' }, text));
    expect(models.some(({ id }) => id === 'openai/gpt-5')).toBe(true);
  });

  test('a preset’s key is sent to the preset’s address only, and its own key wins', () => {
    const keysOf = (text: string): unknown =>
      load({ OPENAI_API_KEY: 'k' }, `providers: { openai: ${text} }`).providers[0]?.apiKeys.map(key => key.reveal());
    expect(keysOf('{ protocol: chat }')).toEqual(['k']);
    expect(keysOf('{ api_key: own }')).toEqual(['own']);
    expect(keysOf(`{ base_url: "${here}" }`)).toEqual([]);
    expect(keysOf(`{ protocols: { chat: "${here}" } }`)).toEqual([]);
  });

  test('a provider that the file sets whole has no catalogue, unless the environment enables the preset', async () => {
    const text = `providers: { openai: { protocol: chat, base_url: "${here}" } }`;
    expect((await withPresetModels(load({}, text))).models).toEqual([]);
    expect((await withPresetModels(load({ OPENAI_API_KEY: 'k' }, text))).models.length).toBeGreaterThan(10);
  });

  test('`base_url` may be absent where `protocols` has addresses; a provider without an address is refused', () => {
    expect(spoken({}, `providers: { mine: { protocols: { chat: "${here}", responses: "${here}" } } }`)).toEqual([
      [`responses ${here}`, `chat ${here}`],
    ]);
    expect(() => load({}, 'providers: { mine: { protocol: chat } }')).toThrow(
      /providers\.mine\.base_url: is missing, must be an http:\/\/ or https:\/\/ address/,
    );
    expect(() => load({}, `providers: { mine: { base_url: "${here}" } }`)).toThrow(
      /providers\.mine\.protocol: is missing, must be chat, responses/,
    );
    expect(() => load({}, 'providers: { openai: { protocol: messages } }')).toThrow(/base_url: is missing/);
  });

  test('a provider of the file is known by its address', () => {
    expect(findServer('mine', 'https://api.deepseek.com/v1')).toBe('deepseek');
    expect(findServer('mine', 'https://models.example/v1')).toBeUndefined();
    expect(findServer('ollama', 'http://127.0.0.1:11434/v1')).toBe('ollama');
  });
});

describe('the catalogue', () => {
  test('has the current models of the enabled presets, with exact prices', async () => {
    const { models } = await withPresetModels(load({ OPENAI_API_KEY: 'k', GEMINI_API_KEY: 'k' }));
    const byId = new Map(models.map(model => [model.id, model]));
    expect(byId.get('openai/gpt-5')).toMatchObject({
      ownedBy: 'openai',
      contextLength: 400_000,
      maxOutputTokens: 128_000,
      vision: true,
      serviceTiers: ['flex', 'priority'],
      pricing: { inputPicoUsd: 1_250_000n, outputPicoUsd: 10_000_000n, caching: { readPicoUsd: 125_000n }, above: [] },
      routes: [{ provider: 'openai', model: 'gpt-5', priority: 1, weight: 1 }],
    });
    expect(byId.get('google/gemini-2.5-pro')?.pricing).toEqual({
      inputPicoUsd: 1_250_000n,
      outputPicoUsd: 10_000_000n,
      caching: { readPicoUsd: 125_000n },
      above: [
        {
          inputTokens: 200_000,
          inputPicoUsd: 2_500_000n,
          outputPicoUsd: 15_000_000n,
          caching: { readPicoUsd: 250_000n },
        },
      ],
    });
    expect([...byId.keys()].some(id => id.startsWith('anthropic/'))).toBe(false);
  });

  test('every row of our table has a price in the package or of our own: none is listed without one, none is forgotten', async () => {
    const variables = Object.fromEntries(
      presets.flatMap(({ accountVariable, keyVariables = [] }) =>
        [accountVariable ?? [], keyVariables].flat().map(name => [name, 'k']),
      ),
    );
    const { models } = await withPresetModels(load(variables));
    const listed = models.map(({ id }) => id).sort();
    const rows = Object.entries(presetModels).flatMap(([name, each]) => each.map(({ model }) => `${name}/${model}`));
    expect(listed).toEqual(rows.sort());
    expect(new Set(listed).size).toBe(listed.length);
    for (const { pricing, endpoints } of models) {
      const isText = !endpoints.includes('/v1/embeddings');
      expect((pricing.inputPicoUsd ?? -1n) >= 0n).toBe(true);
      expect((pricing.outputPicoUsd ?? -1n) >= 0n).toBe(isText);
    }
  });

  test('has embedding models, on their path alone and paid by their input', async () => {
    const { models } = await withPresetModels(load({ OPENAI_API_KEY: 'k', MISTRAL_API_KEY: 'k' }));
    const byId = new Map(models.map(model => [model.id, model]));
    expect(byId.get('openai/text-embedding-3-small')).toMatchObject({
      endpoints: ['/v1/embeddings', '/v1beta/models/{model}:embedContent'],
      dimensions: true,
      contextLength: 8_192,
      pricing: { inputPicoUsd: 20_000n, above: [] },
    });
    expect(byId.get('openai/text-embedding-ada-002')?.dimensions).toBeUndefined();
    expect(byId.get('mistral/mistral-embed')?.pricing).toEqual({ inputPicoUsd: 100_000n, above: [] });
  });

  test('a model is requested by the provider’s own name of it', async () => {
    const { models } = await withPresetModels(load({ FIREWORKS_API_KEY: 'k' }));
    expect(models.find(({ id }) => id === 'fireworks/kimi-k3')?.routes).toEqual([
      { provider: 'fireworks', model: 'accounts/fireworks/models/kimi-k3', priority: 1, weight: 1 },
    ]);
  });

  test('a model of the file replaces a preset’s model with its id', async () => {
    const text = `models: [{ id: openai/gpt-5, pricing: { input: 9, output: 9 }, routes: [{ provider: openai, model: x }] }]`;
    const { models } = await withPresetModels(load({ OPENAI_API_KEY: 'k' }, text));
    expect(models.filter(({ id }) => id === 'openai/gpt-5').map(({ routes }) => routes[0]?.model)).toEqual(['x']);
  });

  test('aliases and plans may name its models if their preset is enabled', async () => {
    const text = `
aliases: { sonnet: anthropic/claude-sonnet-5 }
plans: { core: { models: [anthropic/claude-haiku-4-5] } }`;
    const config = await withPresetModels(load({ ANTHROPIC_API_KEY: 'k' }, text));
    expect(config.models.map(({ id }) => id)).toContain(config.aliases.get('sonnet'));
    expect(config.plans.core.models).toEqual(['anthropic/claude-haiku-4-5']);
    expect(() => load({}, text)).toThrow(/aliases\.sonnet: "anthropic\/claude-sonnet-5" names no model/);
    expect(() => load({ ANTHROPIC_API_KEY: 'k' }, 'aliases: { sonnet: anthropic/claude-sonet-5 }')).toThrow(
      /did you mean anthropic\/claude-sonnet-5\?/,
    );
    const own = '\nproviders: { anthropic: { protocol: messages, base_url: "http://a.example" } }';
    expect(() => load({}, text + own)).toThrow(/names no model/);
    expect(load({ ANTHROPIC_API_KEY: 'k' }, text + own).aliases.get('sonnet')).toBe('anthropic/claude-sonnet-5');
  });

  test('an alias of the file replaces a preset’s model with that id', async () => {
    const text = `
models: [{ id: a/b, pricing: { input: 1, output: 1 }, routes: [{ provider: openai, model: x }] }]
aliases: { openai/gpt-5: a/b }`;
    const { models, aliases } = await withPresetModels(load({ OPENAI_API_KEY: 'k' }, text));
    expect(models.some(({ id }) => id === 'openai/gpt-5')).toBe(false);
    expect(aliases.get('openai/gpt-5')).toBe('a/b');
    expect(() => load({ OPENAI_API_KEY: 'k' }, `${text.replace(' }', ', five: openai/gpt-5 }')}`)).toThrow(ConfigError);
  });

  test('of prices by date the latest past one applies, of prices by the hour the most expensive', () => {
    const prices = { input_mtok: 1, output_mtok: 2 };
    const dear = { input_mtok: 3, output_mtok: 4 };
    expect(
      toPricing([{ prices }, { constraint: { type: 'start_date', start_date: '2026-01-01' }, prices: dear }])
        ?.inputPicoUsd,
    ).toBe(3_000_000n);
    expect(
      toPricing([{ prices }, { constraint: { type: 'start_date', start_date: '2099-01-01' }, prices: dear }])
        ?.inputPicoUsd,
    ).toBe(1_000_000n);
    expect(
      toPricing([
        { constraint: { type: 'time_of_date', start_time: '00:00', end_time: '08:00' }, prices },
        { prices: dear },
      ])?.outputPicoUsd,
    ).toBe(4_000_000n);
    expect(toPricing({ input_mtok: 1 })).toBeUndefined();
  });
});

describe('servers that are queried for their models', () => {
  const reported = (of: Preset, list: readonly Record<string, unknown>[]) =>
    toDiscoveredModels(
      of,
      list.map(listed => ({ listed })),
      { prices: [], nowMs: 0 },
    ).models;
  test.each([
    ['vLLM', { id: 'Qwen/Qwen3-8B', object: 'model', owned_by: 'vllm', max_model_len: 40_960 }, 40_960],
    [
      'llama.cpp',
      { id: 'qwen3.gguf', object: 'model', meta: { n_ctx: 4_096, n_ctx_train: 32_768, n_params: 8_190_735_360 } },
      4_096,
    ],
    ['LM Studio', { id: 'qwen3-8b', object: 'model', owned_by: 'organization_owner' }, undefined],
  ])('%s’s entry: price 0, every feature, and the context if it is reported', (title, entry, contextLength) => {
    const [of] = presets.filter(each => each.title === title);
    expect(reported(of ?? expect.fail(title), [entry])).toMatchObject([
      {
        id: `${of?.name}/${entry.id}`,
        ...(contextLength === undefined ? {} : { contextLength }),
        functionCall: true,
        pricing: { inputPicoUsd: 0n, outputPicoUsd: 0n },
        routes: [{ provider: of?.name, model: entry.id }],
      },
    ]);
  });

  const preset = (name: string) => presets.find(each => each.name === name) ?? expect.fail(name);

  test('a local one: price 0, and the context length that it reports', () => {
    const list = [
      { id: 'qwen3:8b' },
      { id: 'org/model', max_model_len: 8_192 },
      { id: '' },
      { id: 'a b' },
      { id: 'qwen3:8b' },
    ];
    const models = reported(preset('ollama'), list);
    expect(models.map(({ id, contextLength, pricing }) => [id, contextLength, pricing.inputPicoUsd])).toEqual([
      ['ollama/qwen3:8b', undefined, 0n],
      ['ollama/org/model', 8_192, 0n],
    ]);
  });

  test('another Tollgate: its prices, capabilities and limits; what draws images or has no price is left out', () => {
    const pricing = {
      input: 0.25,
      output: 2,
      caching: { read: 0.025, write_5m: null },
      above: [{ input_tokens: 1000, input: 1, output: 4 }],
    };
    const capabilities = { vision: false, function_call: true, reasoning: true, service_tiers: ['flex'] };
    const models = reported(preset('tollgate'), [
      {
        id: 'acme/a',
        pricing,
        capabilities,
        context_length: 1_000,
        max_output_tokens: 100,
        endpoints: ['/v1/chat/completions'],
      },
      { id: 'acme/image', pricing: { image: 1 }, endpoints: ['/v1/images/generations'] },
      { id: 'acme/unpriced' },
      { id: 'acme/x:free', endpoints: ['/v1/chat/completions'] },
    ]);
    expect(models.map(({ id }) => id)).toEqual(['tollgate/acme/a', 'tollgate/acme/x:free']);
    expect(models[0]).toMatchObject({
      contextLength: 1_000,
      maxOutputTokens: 100,
      vision: false,
      functionCall: true,
      serviceTiers: ['flex'],
      pricing: {
        inputPicoUsd: 250_000n,
        outputPicoUsd: 2_000_000n,
        caching: { readPicoUsd: 25_000n },
        above: [{ inputTokens: 1_000, inputPicoUsd: 1_000_000n, outputPicoUsd: 4_000_000n }],
      },
    });
  });
});
