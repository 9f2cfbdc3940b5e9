import type { JsonValue } from '@bufbuild/protobuf';

/**
 * The features of providers that cost extra, in addition to tokens. Sources: the price lists and references of OpenAI, Anthropic, Google, OpenRouter, xAI and
 * Perplexity, 2026-11. A member costs nothing if it has the value that the provider assumes for an absent member.
 */

type JsonObject = { readonly [name: string]: JsonValue | undefined };

/** Features that can be priced per call (`pricing.tools`), because providers report how many calls they ran. */
export const pricedTools = [
  'web_search',
  'file_search',
  'code_interpreter',
  'code_execution',
  'image_generation',
  'google_maps',
] as const;

/** A tool that a provider runs and charges per call. */
export type PricedTool = (typeof pricedTools)[number];

/** The price of a member of a body: the price name, and the values that cost nothing. */
interface PricedMember {
  readonly feature: string;
  readonly harmless?: readonly JsonValue[];
}

/** Members of a body that cost extra. */
const pricedMembers: Readonly<Record<string, PricedMember>> = {
  web_search_options: { feature: 'web_search' },
  search_parameters: { feature: 'web_search' },
  web_search: { feature: 'web_search', harmless: [false] },
  enable_search: { feature: 'web_search', harmless: [false] },
  plugins: { feature: 'plugins' },
  audio: { feature: 'audio' },
  modalities: { feature: 'audio' },
  image_generation: { feature: 'image_generation', harmless: [false] },
  image_config: { feature: 'image_generation' },
  compound_custom: { feature: 'web_search' },
  speed: { feature: 'speed', harmless: ['standard'] },
  inference_geo: { feature: 'inference_geo', harmless: ['global', 'not_available'] },
  container: { feature: 'code_execution' },
  // Together's second model, which reads the request too.
  safety_model: { feature: 'safety_model' },
  // Azure's searches in the operator's own data.
  data_sources: { feature: 'data_sources' },
  // Images: further images, frames, or the text of another model. Source: the types of `openai` 7.59 (`ImageGenerateParams`).
  partial_images: { feature: 'partial_images', harmless: [0, '0'] },
  frame_count: { feature: 'frame_count', harmless: [1, '1'] },
  svg: { feature: 'svg' },
  // Gemini's, in either spelling: other output than text, and caches and filters that the operator's project pays for. Source: the types of `@google/genai` 3.3.
  responseModalities: { feature: 'other output than text' },
  speechConfig: { feature: 'audio' },
  imageConfig: { feature: 'images in an answer' },
  cachedContent: { feature: 'a stored cache', harmless: [''] },
  modelArmorConfig: { feature: 'a filter' },
};

/**
 * Members that ask for more samples than the client sees, or for as many as their value. Sources: vLLM (docs.vllm.ai, "OpenAI Compatible Server", extra
 * parameters: `best_of`, `use_beam_search`), Hugging Face (huggingface.js `TextGenerationParameters`: `best_of`; Transformers' generation configuration:
 * `num_return_sequences`, `num_beams`), `@google/genai` 3.3 (`candidateCount`), 2026-11.
 */
export const sampleMembers: readonly string[] = [
  'n',
  'best_of',
  'use_beam_search',
  'beam_width',
  'num_beams',
  'num_return_sequences',
  'num_samples',
  'num_outputs',
  'num_images',
  'num_images_per_prompt',
  'candidate_count',
  'candidateCount',
];

/** Members that nest the settings of a sample in other servers' own forms; they are searched too. */
const settingMembers: readonly string[] = [
  'generation_config',
  'generationConfig',
  'parameters',
  'sampling_params',
  'options',
  'model_kwargs',
  'generate_kwargs',
  'nvext',
  'vllm_xargs',
];

/** The features of tools that a provider runs and charges per call, by the beginning of the tool's type. */
const toolFeatures: readonly (readonly [prefix: string, feature: string])[] = [
  ['web_search', 'web_search'],
  ['x_search', 'web_search'],
  ['live_search', 'web_search'],
  ['file_search', 'file_search'],
  ['code_interpreter', 'code_interpreter'],
  ['code_execution', 'code_execution'],
  ['image_generation', 'image_generation'],
  ['advisor', 'advisor'],
  // In Gemini, the name of a tool is its only member, in either spelling.
  ['google_search', 'web_search'],
  ['google_maps', 'google_maps'],
  ['enterprise_web_search', 'web_search'],
  ['exa_ai_search', 'web_search'],
  ['parallel_ai_search', 'web_search'],
  ['retrieval', 'retrieval'],
];

/** A part of a request that costs extra, or that selects another model, host or credential. */
export interface WithheldFeature {
  /** The name of the feature in price lists; '' if it does not cost extra but selects another model, host or credential. */
  readonly feature: string;
  /** Its path in the body ("tools.0"). */
  readonly param: string;
}

/** Returns the parts of a body that cost extra. `samples`: how many samples the request is admitted for; more cost extra. */
export function findPriced(body: JsonObject, samples = 1): WithheldFeature[] {
  const found = findPricedMembers(body, samples, '');
  for (const name of settingMembers) {
    const settings = body[name];
    if (isObject(settings)) found.push(...findPricedMembers(settings, samples, `${name}.`));
  }
  addTools(found, body['tools'], 'tools');
  addOfferedLater(found, body);
  return found;
}

function findPricedMembers(body: JsonObject, samples: number, path: string): WithheldFeature[] {
  const found: WithheldFeature[] = [];
  for (const name in body) {
    const value = body[name] ?? null;
    const feature = sampleMembers.includes(name)
      ? asksForMore(value, samples)
        ? 'more samples'
        : undefined
      : findMemberFeature(name, value);
    if (feature === undefined) continue;
    const listed = listedName(name);
    // Errors name members as Gemini spells them, in whatever spelling they came.
    found.push({ feature, param: (listed === name ? path : camelCase(path)) + listed });
  }
  return found;
}

/** Returns whether the value of a member that names samples asks for more than `samples`. */
function asksForMore(value: JsonValue, samples: number): boolean {
  if (value === null || value === false || value === 'false' || value === '') return false;
  const count = typeof value === 'string' ? Number(value) : value;
  return typeof count !== 'number' || Number.isNaN(count) || count > samples;
}

function addTools(found: WithheldFeature[], tools: JsonValue | undefined, path: string): void {
  if (!Array.isArray(tools)) return;
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool)) continue;
    const param = `${path}.${index}`;
    const feature = findToolFeature(tool);
    if (feature !== undefined) found.push({ feature, param });
    const setting = findToolSetting(tool);
    if (setting !== undefined) found.push({ feature: setting, param: `${param}.${setting}` });
    // A namespace of the Responses interface has tools of its own.
    addTools(found, tool['tools'], `${param}.tools`);
  }
}

/** Returns the path of a setting of a tool that selects a dearer price than that of a call; undefined: none does. Source: the types of `openai` 7.59 (`memory_limit`). */
function findToolSetting({ container }: JsonObject): string | undefined {
  const limit = isObject(container) ? (container['memory_limit'] ?? null) : null;
  return limit === null || limit === '1g' ? undefined : 'container.memory_limit';
}

/** Adds the tools that a conversation offers after its begin: `additional_tools` and found tools of Responses, `tool_addition` blocks of Messages. */
function addOfferedLater(found: WithheldFeature[], { input, messages }: JsonObject): void {
  if (Array.isArray(input)) {
    for (const [index, item] of input.entries()) {
      if (isObject(item) && item['tools'] !== undefined) addTools(found, item['tools'], `input.${index}.tools`);
    }
  }
  if (!Array.isArray(messages)) return;
  for (const [index, message] of messages.entries()) {
    const content = isObject(message) ? message['content'] : undefined;
    if (!Array.isArray(content)) continue;
    for (const [place, block] of content.entries()) {
      if (isObject(block)) addAdded(found, block, `messages.${index}.content.${place}`);
    }
  }
}

/** Adds the tool of a block that adds one, and those of a compaction that has added some. */
function addAdded(found: WithheldFeature[], block: JsonObject, path: string): void {
  const { type, tool, tool_changes: changes } = block;
  if (type === 'tool_addition' && isObject(tool) && isObject(tool['definition'])) {
    addTools(found, [tool['definition']], `${path}.tool`);
  }
  if (!Array.isArray(changes)) return;
  for (const [index, change] of changes.entries()) {
    if (isObject(change)) addAdded(found, change, `${path}.tool_changes.${index}`);
  }
}

function isObject(value: JsonValue | undefined): value is { [name: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the feature of a member of a body; undefined: it does not cost extra. */
export function findMemberFeature(param: string, value: JsonValue): string | undefined {
  const feature = memberFeature(param);
  if (feature === undefined || value === null) return undefined;
  const isHarmless = findPricedMember(param)?.harmless?.includes(value);
  return isHarmless || (/modalities$/i.test(param) && isTextOnly(value)) ? undefined : feature;
}

/** Returns the feature of a member of a body if its value costs extra; undefined: no value does. */
export function memberFeature(param: string): string | undefined {
  return findPricedMember(param)?.feature;
}

/** Returns what a member costs. Names in camelCase are Gemini's, which has them in snake_case too. */
function findPricedMember(name: string): PricedMember | undefined {
  const listed = listedName(name);
  return Object.hasOwn(pricedMembers, listed) ? pricedMembers[listed] : undefined;
}

function camelCase(name: string): string {
  return name.includes('_') ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}

/** Returns the name of a member as `pricedMembers` has it; a name that it does not have stays as it is. */
function listedName(name: string): string {
  if (Object.hasOwn(pricedMembers, name)) return name;
  const camel = camelCase(name);
  return Object.hasOwn(pricedMembers, camel) ? camel : name;
}

function isTextOnly(value: JsonValue): boolean {
  return Array.isArray(value) && value.every(each => each === 'text' || each === 'TEXT');
}

/** Returns the feature of a tool of a body; undefined: it does not cost extra. */
export function findToolFeature(tool: JsonValue): string | undefined {
  if (!isObject(tool)) return undefined;
  const { type, environment } = tool;
  if (type === 'shell' && isObject(environment) && environment['type'] !== 'local') return 'shell';
  const names = typeof type === 'string' ? [type] : Object.keys(tool);
  for (const name of names) {
    const feature = nameFeature(name);
    if (feature !== undefined) return feature;
  }
  return undefined;
}

/**
 * Returns the feature that a type or name of a tool or of a call means ("web_search_20250305", "web_search_call"); undefined: none.
 */
export function nameFeature(name: string): string | undefined {
  const snake = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
  return toolFeatures.find(([prefix]) => snake.startsWith(prefix))?.[1];
}
