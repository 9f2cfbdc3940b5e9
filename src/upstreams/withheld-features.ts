import type { JsonObject } from '../codecs/codec.ts';
import { objectIn } from '../codecs/json.ts';
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
/** Members of Gemini's `generationConfig` that let the provider choose the model. Source: the types of `@google/genai` 3.3. */
const modelChoosers = ['routingConfig', 'routing_config', 'modelSelectionConfig', 'model_selection_config'];
/** Beginnings of the names of such members. */
const routingPrefixes = /^(?:aws_|vertex_|azure_|litellm_)/;

/**
 * Members of a body that name another payer, or a credit of another request. They are refused under every policy: the account pays. Source: the types
 * of `@anthropic-ai/sdk` 1.14 (`BetaBillingPolicy`, `BetaFallbackCreditTokenParam`, `user_profile_id`, `workspace_id`), 2026-11.
 */
const payerMembers: readonly string[] = ['billing_policy', 'fallback_credit_token', 'user_profile_id', 'workspace_id'];

/**
 * Members of a body that select the price of a slower or a collected run. They are refused under every policy: the gateway itself runs what is in the
 * background, so that the provider is never asked for the background that belongs to them.
 */
const windowMembers: readonly string[] = ['background_options', 'completion_window'];

const routeReason = 'the gateway chooses the route';

const refusedMembers: readonly (readonly [members: readonly string[], reason: string])[] = [
  [routingMembers, routeReason],
  [payerMembers, 'the account pays for its requests'],
  [windowMembers, 'the gateway itself runs what is in the background'],
];

/** The beginnings of values of `anthropic-beta` that change the price, or who pays it. */
const pricedBetas: readonly string[] = [
  'context-1m',
  'fast-mode',
  'advisor',
  'fallback-credit',
  'user-profiles-billing',
];

/** A member that no policy allows. */
export interface RefusedMember extends WithheldFeature {
  /** Why, for the end of a message. */
  readonly reason: string;
}

/** Returns the first member of a body that no policy allows; undefined if there is none. */
export function findRefused(body: JsonObject): RefusedMember | undefined {
  for (const param in body) {
    const value = body[param];
    if (value === null) continue;
    const reason = refusalReason(param);
    if (reason !== undefined) return { feature: '', param, reason };
    if (param !== 'generationConfig' && param !== 'generation_config') continue;
    const chooser = modelChoosers.find(name => objectIn(value)?.[name] != null);
    if (chooser !== undefined) return { feature: '', param: `${param}.${chooser}`, reason: routeReason };
  }
  return undefined;
}

/** Returns why no policy allows a member of a body; undefined if a policy does. */
export function refusalReason(param: string): string | undefined {
  const rule = refusedMembers.find(([members]) => members.includes(param));
  return rule?.[1] ?? (routingPrefixes.test(param) ? routeReason : undefined);
}

/** Returns whether a value of `anthropic-beta` changes the price. */
export function isPricedBeta(beta: string): boolean {
  return pricedBetas.some(prefix => beta.startsWith(prefix));
}
