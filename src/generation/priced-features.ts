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
  // In Gemini, the name of a tool is its only member.
  ['googleSearch', 'web_search'],
  ['google_search', 'web_search'],
  ['googleMaps', 'google_maps'],
  ['google_maps', 'google_maps'],
  ['enterpriseWebSearch', 'web_search'],
];

/** A part of a request that costs extra, or that selects another model, host or credential. */
export interface WithheldFeature {
  /** The name of the feature in price lists; '' if it does not cost extra but selects another model, host or credential. */
  readonly feature: string;
  /** Its path in the body ("tools.0"). */
  readonly param: string;
}

/** Returns the parts of a body that cost extra. */
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

/** Returns the feature of a member of a body; undefined: it does not cost extra. */
export function findMemberFeature(param: string, value: JsonValue): string | undefined {
  const feature = memberFeature(param);
  if (feature === undefined || value === null) return undefined;
  const isHarmless = pricedMembers[param]?.harmless?.includes(value);
  return isHarmless || (param === 'modalities' && isTextOnly(value)) ? undefined : feature;
}

/** Returns the feature of a member of a body if its value costs extra; undefined: no value does. */
export function memberFeature(param: string): string | undefined {
  return Object.hasOwn(pricedMembers, param) ? pricedMembers[param]?.feature : undefined;
}

function isTextOnly(value: JsonValue): boolean {
  return Array.isArray(value) && value.every(each => each === 'text');
}

/** Returns the feature of a tool of a body; undefined: it does not cost extra. */
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
 * Returns the feature that a type or name of a tool or of a call means ("web_search_20250305", "web_search_call"); undefined: none.
 */
export function nameFeature(name: string): string | undefined {
  return toolFeatures.find(([prefix]) => name.startsWith(prefix))?.[1];
}
