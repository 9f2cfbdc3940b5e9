import type { JsonValue } from '@bufbuild/protobuf';

/**
 * Features with a price besides tokens, as data. Sources: the price lists and references of OpenAI, Anthropic, Google, OpenRouter, xAI and
 * Perplexity, 2026-11. A member is harmless with the value that the provider assumes if it is absent.
 */

type JsonObject = { readonly [name: string]: JsonValue | undefined };

/** Features priced per call (`pricing.tools`), because providers report how often they ran them. */
export const pricedTools = [
  'web_search',
  'file_search',
  'code_interpreter',
  'code_execution',
  'image_generation',
  'google_maps',
] as const;

/** A tool that a provider runs and charges by the call. */
export type PricedTool = (typeof pricedTools)[number];

/** Members of a body that cost extra, with the price name and the values that cost nothing. */
const pricedMembers: Readonly<Record<string, { readonly feature: string; readonly harmless?: readonly JsonValue[] }>> =
  {
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
const toolFeatures: readonly (readonly [prefix: string, feature: string])[] = [
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

/** Something of a request that costs extra or changes its route. */
export interface WithheldFeature {
  /** Its price name; '' for features that change the route. */
  readonly feature: string;
  /** Its path ("tools.0"). */
  readonly param: string;
}

/** Returns what costs extra in a body. */
export function findPriced(body: JsonObject): WithheldFeature[] {
  const found: WithheldFeature[] = [];
  for (const param in body) {
    const feature = findMemberFeature(param, body[param] ?? null);
    if (feature !== undefined) found.push({ feature, param });
  }
  const { tools } = body;
  if (!Array.isArray(tools)) return found;
  for (const [index, tool] of tools.entries()) {
    const feature = findToolFeature(tool);
    if (feature !== undefined) found.push({ feature, param: `tools.${index}` });
  }
  return found;
}

/** Returns the price name of a member of a body; undefined: it costs nothing. */
export function findMemberFeature(param: string, value: JsonValue): string | undefined {
  if (!Object.hasOwn(pricedMembers, param) || value === null) return undefined;
  const { feature, harmless = [] } = pricedMembers[param] ?? {};
  return harmless.includes(value) || (param === 'modalities' && isTextOnly(value)) ? undefined : feature;
}

function isTextOnly(value: JsonValue): boolean {
  return Array.isArray(value) && value.every(each => each === 'text');
}

/** Returns the price name of a tool of a body; undefined: it costs nothing. */
export function findToolFeature(tool: JsonValue): string | undefined {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return undefined;
  const { type } = tool;
  const names = typeof type === 'string' ? [type] : Object.keys(tool);
  for (const name of names) {
    const feature = nameFeature(name);
    if (feature !== undefined) return feature;
  }
  return undefined;
}

/**
 * Returns the price name of a tool, or of an item that shows a call of it, by its type or name
 * ("web_search_20250305", "web_search_call").
 */
export function nameFeature(name: string): string | undefined {
  return toolFeatures.find(([prefix]) => name.startsWith(prefix))?.[1];
}
