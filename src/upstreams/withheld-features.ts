import type { Json, JsonObject } from '../codecs/codec.ts';

/**
 * What a request may ask of a provider beyond tokens, as data. Sources: the price lists and references of OpenAI, Anthropic, Google, OpenRouter, xAI and LiteLLM, 2026-11. A member is
 * harmless with the value that the provider takes for its absence.
 */

/** Members of a body that name other models, hosts or credentials: no policy lets them pass, because they leave the models that a key may use. */
const routingMembers: readonly string[] = [
  'models',
  'model_list',
  'fallbacks',
  'context_window_fallbacks',
  'content_policy_fallbacks',
  'route',
  'router',
  'provider',
  'providers',
  'preset',
  'deployment_id',
  'api_base',
  'base_url',
  'api_key',
  'api_version',
  'api_type',
  'organization',
  'custom_llm_provider',
  'litellm_params',
  'extra_body',
  'extra_headers',
  'providerOptions',
];
/** Beginnings of such members. */
const routingPrefixes = /^(?:aws_|vertex_|azure_|litellm_)/;

/** Members of a body that cost extra, with what they are priced as and the values that cost nothing. */
const pricedMembers: Readonly<Record<string, { readonly feature: string; readonly harmless?: readonly Json[] }>> = {
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
};

/** Tools that a provider runs and charges by the call, by how their type begins. */
const pricedTools: readonly (readonly [prefix: string, feature: string])[] = [
  ['web_search', 'web_search'],
  ['x_search', 'web_search'],
  ['live_search', 'web_search'],
  ['file_search', 'file_search'],
  ['code_interpreter', 'code_interpreter'],
  ['code_execution', 'code_execution'],
  ['image_generation', 'image_generation'],
  ['advisor', 'advisor'],
  // Gemini names a tool by its one member.
  ['googleSearch', 'web_search'],
  ['google_search', 'web_search'],
  ['googleMaps', 'google_maps'],
  ['google_maps', 'google_maps'],
  ['enterpriseWebSearch', 'web_search'],
];

/** Values of `anthropic-beta` that change the price, by how they begin. */
const pricedBetas: readonly string[] = ['context-1m', 'fast-mode', 'advisor'];

/** Something of a request that costs extra or changes its route. */
export interface WithheldFeature {
  /** What it is priced as; '' for what changes the route. */
  readonly feature: string;
  /** Where it stands ("tools.0"). */
  readonly param: string;
}

/** Returns the first thing in a body that no policy lets pass; undefined if there is none. */
export function findRouting(body: JsonObject): WithheldFeature | undefined {
  for (const param in body) {
    if ((routingMembers.includes(param) || routingPrefixes.test(param)) && body[param] !== null) {
      return { feature: '', param };
    }
  }
  return undefined;
}

/** Returns what costs extra in a body. */
export function findPriced(body: JsonObject): WithheldFeature[] {
  const found: WithheldFeature[] = [];
  for (const param in body) {
    const value = body[param] ?? null;
    if (!Object.hasOwn(pricedMembers, param) || value === null) continue;
    const { feature = '', harmless = [] } = pricedMembers[param] ?? {};
    if (harmless.includes(value) || (param === 'modalities' && isTextOnly(value))) continue;
    found.push({ feature, param });
  }
  if (!Array.isArray(body['tools'])) return found;
  for (const [index, tool] of body['tools'].entries()) {
    const feature = findToolFeature(tool);
    if (feature !== undefined) found.push({ feature, param: `tools.${index}` });
  }
  return found;
}

function isTextOnly(value: Json): boolean {
  return Array.isArray(value) && value.every(each => each === 'text');
}

function findToolFeature(tool: Json): string | undefined {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return undefined;
  const { type } = tool;
  const names = typeof type === 'string' ? [type] : Object.keys(tool);
  return pricedTools.find(([prefix]) => names.some(name => name.startsWith(prefix)))?.[1];
}

/** Returns whether a value of `anthropic-beta` changes the price. */
export function isPricedBeta(beta: string): boolean {
  return pricedBetas.some(prefix => beta.startsWith(prefix));
}
