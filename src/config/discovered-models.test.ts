import { expect, test } from 'vitest';
import type { ModelDescription } from './model-facts.ts';
import { toDiscoveredModels, type PriceRules } from './discovered-models.ts';
import { presets } from './presets.ts';

const requestedAtMs = 1_795_374_969_500;

function reported(presetName: string, list: readonly ModelDescription[], prices: PriceRules = []) {
  const preset = presets.find(({ name }) => name === presetName) ?? expect.fail(presetName);
  return toDiscoveredModels(preset, list, { prices, nowMs: requestedAtMs });
}

/** Returns the model that is made from a description. */
function one(preset: string, description: ModelDescription) {
  const { models } = reported(preset, [description]);
  expect(models).toHaveLength(1);
  return models[0] ?? expect.fail('no model');
}

// The answer of llama.cpp b10434 for SmolLM2-135M, started with `-m /models/SmolLM2.gguf -c 4096 -np 2`; shortened.
const llama = {
  listed: {
    id: '/models/SmolLM2-135M-Instruct.Q4_1.gguf',
    object: 'model',
    created: 1_795_374_969,
    owned_by: 'llamacpp',
    meta: { n_vocab: 49_152, n_ctx: 2_048, n_ctx_train: 8_192, n_params: 134_515_008, ftype: 'Q4_1' },
  },
  entry: { model: '/models/SmolLM2-135M-Instruct.Q4_1.gguf', type: 'model', capabilities: ['completion'] },
  props: {
    default_generation_settings: { n_ctx: 2_048 },
    total_slots: 2,
    modalities: { vision: false, video: false, audio: false },
    chat_template: '{% for message in messages %}{{ message.content }}{% endfor %}',
    chat_template_caps: { supports_reasoning_effort: false, supports_tool_calls: false, supports_tools: false },
  },
};
// An answer of Ollama 0.17 to `POST /api/show`, shortened.
const ollama = {
  listed: { id: 'llama3.2:latest', object: 'model', created: 1_760_000_000, owned_by: 'library' },
  show: {
    parameters: 'num_ctx                        8192\nstop                           "<|eot_id|>"',
    details: { family: 'llama', parameter_size: '3.2B', quantization_level: 'Q4_K_M' },
    model_info: { 'general.architecture': 'llama', 'llama.context_length': 131_072 },
    capabilities: ['completion', 'tools'],
  },
};

test('llama.cpp: a path is offered as the file’s name, with the context, images, tools and reasoning that the server reports', () => {
  expect(one('llama-cpp', llama)).toMatchObject({
    id: 'llama-cpp/SmolLM2-135M-Instruct.Q4_1.gguf',
    name: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    createdAt: 1_795_374_969,
    contextLength: 2_048,
    vision: false,
    functionCall: false,
    reasoning: false,
    pricing: { inputPicoUsd: 0n, outputPicoUsd: 0n },
    routes: [{ provider: 'llama-cpp', model: '/models/SmolLM2-135M-Instruct.Q4_1.gguf' }],
  });
  const able = {
    ...llama,
    props: {
      ...llama.props,
      modalities: { vision: true },
      chat_template: '{% if enable_thinking %}<think>{% endif %}',
      chat_template_caps: { supports_tools: true },
    },
  };
  expect(one('llama-cpp', able)).toMatchObject({ vision: true, functionCall: true, reasoning: true });
  expect(one('llama-cpp', { ...llama, entry: { capabilities: ['completion', 'multimodal'] } }).vision).toBe(true);
});

test('the length that a model was trained for is not its context', () => {
  const { n_ctx: _, ...meta } = llama.listed.meta;
  expect(one('llama-cpp', { listed: { ...llama.listed, meta } })).not.toHaveProperty('contextLength');
});

test.each([
  ['/models/x.gguf', 'x.gguf'],
  ['models/x.gguf', 'x.gguf'],
  ['./x.GGUF', 'x.GGUF'],
  ['~/My Models/My Model.gguf', 'My-Model.gguf'],
  [String.raw`C:\models\x.gguf`, 'x.gguf'],
  ['/models/llama', 'llama'],
  ['ggml-org/gemma-3-1b-it-GGUF', 'ggml-org/gemma-3-1b-it-GGUF'],
])('%s is offered as %s', (id, name) => {
  expect(one('llama-cpp', { listed: { id } })).toMatchObject({
    id: `llama-cpp/${name}`,
    routes: [{ model: id }],
  });
});

test('Ollama: capabilities, and the context with which the model runs', () => {
  const description = one('ollama', ollama);
  expect(description).toMatchObject({ contextLength: 8_192, vision: false, functionCall: true, reasoning: false });
  expect(description).toMatchObject({ id: 'ollama/llama3.2:latest', createdAt: 1_760_000_000 });
  const { parameters: _, ...show } = ollama.show;
  expect(one('ollama', { ...ollama, show, state: { context_length: 4_096 } }).contextLength).toBe(4_096);
  expect(one('ollama', { ...ollama, show }).contextLength).toBe(131_072);
  const able = { ...show, capabilities: ['completion', 'vision', 'tools', 'thinking'] };
  expect(one('ollama', { ...ollama, show: able })).toMatchObject({ vision: true, reasoning: true });
});

test('if nothing is reported, a model has text and tools, but no images and no switch for reasoning', () => {
  expect(one('vllm', { listed: { id: 'Qwen/Qwen3-8B', created: 1_760_000_000, max_model_len: 40_960 } })).toMatchObject(
    {
      contextLength: 40_960,
      vision: false,
      functionCall: true,
      reasoning: false,
    },
  );
});

test('LM Studio: the loaded context, images and tools as it reports them', () => {
  const state = { type: 'vlm', state: 'loaded', max_context_length: 131_072, loaded_context_length: 8_192 };
  const listed = { id: 'qwen2-vl', object: 'model' };
  expect(one('lm-studio', { listed, state: { ...state, capabilities: ['tool_use'] } })).toMatchObject({
    contextLength: 8_192,
    vision: true,
    functionCall: true,
    reasoning: false,
  });
});

test('embedding models are not chat models; each model that is left out has a reason', () => {
  const { models, leftOut } = reported('ollama', [
    { listed: { id: 'nomic-embed-text:latest' }, show: { capabilities: ['embedding'] } },
    { listed: { id: 'bge-m3' } },
    { listed: { id: 'embeddinggemma' }, state: { type: 'embeddings' } },
    { listed: { id: 'text-embedding-nomic-embed-text-v1.5' } },
    { listed: { id: 'a b' } },
    { listed: { id: 'beige' } },
  ]);
  expect(models.map(({ id }) => id)).toEqual(['ollama/beige']);
  expect(leftOut).toEqual({
    'nomic-embed-text:latest': 'does not generate text',
    'bge-m3': 'does not generate text',
    embeddinggemma: 'does not generate text',
    'text-embedding-nomic-embed-text-v1.5': 'does not generate text',
    'a b': 'has a name that can’t be requested',
  });
});

test('a model without a creation time gets the time of the query', () => {
  expect(one('lm-studio', { listed: { id: 'x' } }).createdAt).toBe(1_795_374_969);
});

test('the first matching pattern sets the prices; a free model stays free, and the server’s capabilities are kept', () => {
  const price = (pico: bigint) => ({ inputPicoUsd: pico, outputPicoUsd: 2n * pico, above: [] });
  const rules = [
    { models: ['ollama/llama*', 'vllm/*'], pricing: price(7n) },
    { models: ['ollama/*'], pricing: price(1n) },
  ];
  const list = [ollama, { listed: { id: 'qwen3:8b' } }, { listed: { id: 'qwen3:free' } }];
  const { models } = reported('ollama', list, rules);
  expect(models.map(({ id, pricing }) => [id, pricing.inputPicoUsd, pricing.outputPicoUsd])).toEqual([
    ['ollama/llama3.2:latest', 7n, 14n],
    ['ollama/qwen3:8b', 1n, 2n],
    ['ollama/qwen3:free', 0n, 0n],
  ]);
  expect(models[0]).toMatchObject({ contextLength: 8_192, functionCall: true });
  expect(reported('llama-cpp', [llama], rules).models[0]?.pricing.inputPicoUsd).toBe(0n);
});

test('aliases in a list of another Tollgate are left out: its models are there too', () => {
  const listed = { id: 'acme/large', pricing: { input: 1, output: 2 }, endpoints: ['/v1/chat/completions'] };
  const { models, leftOut } = reported('tollgate', [
    { listed },
    { listed: { ...listed, id: 'best', alias_of: 'acme/large' } },
  ]);
  expect([models.map(({ id }) => id), leftOut]).toEqual([['tollgate/acme/large'], {}]);
});
