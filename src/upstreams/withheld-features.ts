import type { JsonObject } from '../codecs/codec.ts';
import type { WithheldFeature } from '../generation/priced-features.ts';

/**
 * The fields with which a request asks a provider for more than tokens. Sources: the price lists and references of OpenAI, Anthropic,
 * Google, OpenRouter, xAI and LiteLLM, 2026-11. A member does nothing if it has the value that the provider assumes for an absent member.
 */

/** Members of a body that name other models, hosts or credentials. They are refused under every policy, because they could lead to models that the key may not use. */
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
/** Beginnings of the names of such members. */
const routingPrefixes = /^(?:aws_|vertex_|azure_|litellm_)/;

/** The beginnings of values of `anthropic-beta` that change the price. */
const pricedBetas: readonly string[] = ['context-1m', 'fast-mode', 'advisor'];

/** Returns the first member of a body that no policy allows; undefined if there is none. */
export function findRouting(body: JsonObject): WithheldFeature | undefined {
  for (const param in body) {
    if ((routingMembers.includes(param) || routingPrefixes.test(param)) && body[param] !== null) {
      return { feature: '', param };
    }
  }
  return undefined;
}

/** Returns whether a value of `anthropic-beta` changes the price. */
export function isPricedBeta(beta: string): boolean {
  return pricedBetas.some(prefix => beta.startsWith(prefix));
}
