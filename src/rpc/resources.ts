import type { ApiKey, Group, Limit } from '../gen/tollgate/v1/account_pb.ts';
import type { CachePricing, Model, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { dollarsNumber, jsonDollars } from '../lib/dollars.ts';

/**
 * Converts resources to the JSON that REST clients get and the command line prints: the fields of docs/interfaces/account.md, times in ISO 8601. Source: docs/interfaces/account.md; docs/interfaces/models.md "The list".
 */

/** Returns an API key, with dollars as exact JSON numbers. `key` has the full key only if it was just created. */
export function apiKeyJson(key: ApiKey) {
  return {
    api_key_id: Number(key.apiKeyId),
    key: key.key,
    created_at: isoTime(key.createdAtMs),
    label: key.label,
    daily_limit: key.dailyLimit === undefined ? null : Number(key.dailyLimit),
    minute_limit: key.minuteLimit === undefined ? null : Number(key.minuteLimit),
    monthly_limit: key.monthlyLimitNanoUsd === undefined ? null : jsonDollars(key.monthlyLimitNanoUsd),
    balance: key.balanceNanoUsd === undefined ? null : jsonDollars(key.balanceNanoUsd),
    usage_today: jsonDollars(key.usageTodayNanoUsd),
    usage_minute: Number(key.usageMinute),
    last_used_at: key.lastUsedAtMs === undefined ? null : isoTime(key.lastUsedAtMs),
    use_subs_first: key.useSubsFirst,
    fallback_to_payg: key.fallbackToPayg,
    allowed_models: key.allowedModels?.models ?? null,
    disabled: key.disabled,
    group_id: key.groupId === undefined ? null : Number(key.groupId),
    tags: key.tags,
    metadata: JSON.parse(key.metadataJson || '{}') as unknown,
    low_balance: key.lowBalanceNanoUsd === undefined ? null : jsonDollars(key.lowBalanceNanoUsd),
    keep_bodies: key.keepBodies === '' ? null : key.keepBodies,
    paused: key.paused,
    expires_at: key.expiresAtMs === undefined ? null : isoTime(key.expiresAtMs),
  };
}

/** Returns a limit. The amounts of a limit of `usd` are in dollars. */
export function limitJson(limit: Limit) {
  const amount = (value: bigint): unknown => (limit.unit === 'usd' ? jsonDollars(value) : Number(value));
  const { raised, resetsAtMs, models } = limit;
  return {
    limit_id: Number(limit.limitId),
    scope: { type: limit.scope, id: Number(limit.scopeId) },
    unit: limit.unit,
    window: limit.window === '' ? null : limit.window,
    time_zone: limit.timeZone,
    max: amount(limit.max),
    models: models?.models ?? null,
    end_users: limit.endUsers,
    action: limit.action,
    locked: limit.locked,
    raised: raised === undefined ? null : { max: amount(raised.max), until: isoTime(raised.untilMs) },
    used: amount(limit.used),
    held: amount(limit.held),
    remaining: amount(limit.remaining),
    resets_at: resetsAtMs === undefined ? null : isoTime(resetsAtMs),
    created_at: isoTime(limit.createdAtMs),
  };
}

/** Returns a group. */
export function groupJson(group: Group) {
  return {
    group_id: Number(group.groupId),
    name: group.name,
    parent_group_id: group.parentGroupId === undefined ? null : Number(group.parentGroupId),
    tags: group.tags,
    balance: group.balanceNanoUsd === undefined ? null : jsonDollars(group.balanceNanoUsd),
    low_balance: group.lowBalanceNanoUsd === undefined ? null : jsonDollars(group.lowBalanceNanoUsd),
    created_at: isoTime(group.createdAtMs),
  };
}

/** The paths of endpoints. TypeScript requires an entry for every endpoint. */
const listed = {
  [Endpoint.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Endpoint.RESPONSES]: '/v1/responses',
  [Endpoint.MESSAGES]: '/v1/messages',
  [Endpoint.IMAGE_GENERATIONS]: '/v1/images/generations',
  [Endpoint.IMAGE_EDITS]: '/v1/images/edits',
  [Endpoint.EMBEDDINGS]: '/v1/embeddings',
  [Endpoint.RERANK]: '/v1/rerank',
  [Endpoint.COMPLETIONS]: '/v1/completions',
  [Endpoint.GEMINI]: '/v1beta/models/{model}:generateContent',
  [Endpoint.GEMINI_EMBEDDINGS]: '/v1beta/models/{model}:embedContent',
} satisfies Readonly<Record<(typeof Endpoint)[Exclude<keyof typeof Endpoint, 'UNSPECIFIED'>], string>>;

/** The public path of each endpoint that a model can list. */
export const endpointPaths: ReadonlyMap<Endpoint, string> = new Map(
  Object.entries(listed).map(([endpoint, path]) => [Number(endpoint) as Endpoint, path]),
);
const tierNames: ReadonlyMap<ServiceTier, string> = new Map([
  [ServiceTier.FLEX, 'flex'],
  [ServiceTier.PRIORITY, 'priority'],
]);

function isEmbedding(endpoint: Endpoint): boolean {
  return endpoint === Endpoint.EMBEDDINGS || endpoint === Endpoint.GEMINI_EMBEDDINGS;
}

/** Returns a model: the documented fields, and those that the official clients of OpenAI and Anthropic read in lists of models. */
export function modelJson(model: Model) {
  return {
    id: model.id,
    object: 'model',
    created: Number(model.createdAt),
    owned_by: model.ownedBy,
    type: 'model',
    display_name: model.name,
    created_at: isoTime(Number(model.createdAt) * 1000),
    name: model.name,
    description: model.description,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    endpoints: model.endpoints.flatMap(endpoint => endpointPaths.get(endpoint) ?? []),
    capabilities: {
      vision: model.vision,
      function_call: model.functionCall,
      reasoning: model.reasoning,
      ...(model.endpoints.some(isEmbedding) ? { dimensions: model.dimensions } : {}),
      service_tiers: listTiers(model),
    },
    available: model.available,
    pricing: pricingJson(model.pricing),
    deprecated_at: timeOrNull(model.deprecatedAt),
    retires_at: timeOrNull(model.retiresAt),
    replacement: model.replacement || null,
    ...(model.aliasOf === undefined ? {} : { alias_of: model.aliasOf }),
  };
}

/** Returns a time in seconds as ISO 8601; null for 0. */
function timeOrNull(seconds: bigint): string | null {
  return seconds === 0n ? null : isoTime(seconds * 1000n);
}

/** Returns prices in dollars per 1 million tokens; `image` in dollars per image, `search` in dollars per search. null: there is no such price. */
function pricingJson(pricing: Pricing | undefined) {
  const images = pricing?.images.map(({ size, quality, imageNanoUsd }) => ({
    size: size || null,
    quality: quality || null,
    image: dollarsNumber(imageNanoUsd),
  }));
  return {
    input: perMillion(pricing?.inputPicoUsd),
    output: perMillion(pricing?.outputPicoUsd),
    image: pricing?.imageNanoUsd === undefined ? null : dollarsNumber(pricing.imageNanoUsd),
    caching: cachingJson(pricing?.caching),
    above: (pricing?.above ?? []).map(step => ({
      input_tokens: step.inputTokens,
      input: perMillion(step.inputPicoUsd),
      output: perMillion(step.outputPicoUsd),
      caching: cachingJson(step.caching),
    })),
    // The prices of images of certain sizes and qualities, of which the first that matches applies; null matches any. Absent if there are none.
    ...(images === undefined || images.length === 0 ? {} : { images }),
    // The price factor of items of batches; absent if the model has no special one.
    ...(pricing?.batchPermille === undefined ? {} : { batch: pricing.batchPermille / 1000 }),
    ...imageTokenPrices(pricing),
    ...tierFactors(pricing),
    ...toolPrices(pricing),
    ...(pricing?.searchNanoUsd === undefined ? {} : { search: dollarsNumber(pricing.searchNanoUsd) }),
  };
}

/** Returns the tiers besides the standard one: flex, priority, and further ones that have a price factor. */
function listTiers({ serviceTiers, pricing }: Model): string[] {
  const usual = [...tierNames.values()];
  const further = Object.keys(pricing?.tierPermille ?? {}).filter(name => !usual.includes(name));
  return [...serviceTiers.flatMap(tier => tierNames.get(tier) ?? []), ...further];
}

/** Returns the prices of an image model that counts tokens, in dollars per 1 million; nothing if the model is no such one. */
function imageTokenPrices(pricing: Pricing | undefined) {
  const prices = pricing?.imageTokens;
  if (prices === undefined) return {};
  return {
    image_tokens: {
      text_input: perMillion(prices.textInputPicoUsd),
      image_input: perMillion(prices.imageInputPicoUsd),
      cached_input: perMillion(prices.cachedInputPicoUsd),
      output: perMillion(prices.outputPicoUsd),
    },
  };
}

/** Returns the configured price factors of tiers; nothing if the model has none of its own. */
function tierFactors(pricing: Pricing | undefined) {
  const factors = Object.entries(pricing?.tierPermille ?? {});
  if (factors.length === 0) return {};
  return { tiers: Object.fromEntries(factors.map(([name, permille]) => [name, permille / 1000])) };
}

/** Returns the prices of tools that the provider runs, in dollars per call; nothing if the model has none. */
function toolPrices(pricing: Pricing | undefined) {
  const prices = Object.entries(pricing?.toolNanoUsd ?? {});
  if (prices.length === 0) return {};
  return { tools: Object.fromEntries(prices.map(([name, nanoUsd]) => [name, dollarsNumber(nanoUsd)])) };
}

/** Returns the prices of cached input; null: cached tokens are charged as uncached input. */
function cachingJson(caching: CachePricing | undefined) {
  if (caching === undefined) return null;
  return {
    read: perMillion(caching.readPicoUsd),
    write_5m: perMillion(caching.write5mPicoUsd),
    write_1h: perMillion(caching.write1hPicoUsd),
    // Only where the model has them.
    ...(caching.write30mPicoUsd === undefined ? {} : { write_30m: perMillion(caching.write30mPicoUsd) }),
    ...(caching.write12hPicoUsd === undefined ? {} : { write_12h: perMillion(caching.write12hPicoUsd) }),
  };
}

/** Converts pico-dollars per token to dollars per 1 million tokens. Both operands are exact, so the quotient is the double nearest to the decimal. */
function perMillion(picoUsd: bigint | undefined): number | null {
  return picoUsd === undefined ? null : Number(picoUsd) / 1_000_000;
}
