import type { ConditionalPrice, ModelPrice, Provider, TieredPrices } from '@pydantic/genai-prices';
import { scaledInteger } from './decimal.ts';
import { cachingMember, listedModel } from './listed-model.ts';
import { embeddingPaths } from './model-kind.ts';
import { presetModels } from './preset-models.ts';
import { ownPrices } from './own-prices.ts';
import { type Preset, presets } from './presets.ts';
import type { Config, ModelSettings, PricingSettings } from './settings.ts';

/**
 * Adds the models of the enabled presets: those of `presetModels` that the price package, or `ownPrices`, has a price for.
 * A model or alias of the file with the same name takes precedence. The package is loaded only if a preset is
 * enabled, and never accesses the network.
 */
export async function withPresetModels(config: Config): Promise<Config> {
  const on = presets.filter(({ name }) => presetModels[name] !== undefined && isOn(config, name));
  if (on.length === 0) return config;
  const { findProvider } = await import('@pydantic/genai-prices');
  const taken = new Set([...config.models.map(({ id }) => id), ...config.aliases.keys()]);
  const models = on.flatMap(preset => {
    const provider = findProvider({ providerId: preset.name });
    return provider === undefined ? [] : toModels(preset, provider).filter(({ id }) => !taken.has(id));
  });
  return Object.freeze({ ...config, models: Object.freeze([...config.models, ...models]) });
}

function isOn({ providers }: Config, name: string): boolean {
  return providers.some(provider => provider.preset === name);
}

function toModels(preset: Preset, provider: Provider): ModelSettings[] {
  return (presetModels[preset.name] ?? []).flatMap(({ model, embeds, dimensions, ...facts }) => {
    const found = provider.models.find(({ id }) => id === model);
    const own = ownPrices[`${preset.name}/${model}`];
    const prices = found?.prices ?? own?.prices;
    const price = embeds ? toInputPricing : toPricing;
    const pricing = prices === undefined ? undefined : price(prices);
    if (pricing === undefined) return [];
    const contextLength = facts.contextLength ?? found?.context_window ?? own?.contextLength;
    const known = { ...facts, name: found?.name ?? own?.name ?? model, contextLength, pricing };
    const vectors = dimensions ? { dimensions } : {};
    const embeddingFields = embeds ? { ...vectors, endpoints: embeddingPaths } : {};
    return [Object.freeze({ ...listedModel(preset, model, known), ...embeddingFields })];
  });
}

/** Returns the prices of a model; undefined if input or output has none. */
export function toPricing(prices: ConditionalPrice[] | ModelPrice): PricingSettings | undefined {
  const present = Array.isArray(prices) ? findKnownPrice(prices) : prices;
  const input = present?.['input_mtok'];
  const output = present?.['output_mtok'];
  const inputPicoUsd = toPico(input, 0);
  const outputPicoUsd = toPico(output, 0);
  if (present === undefined || inputPicoUsd === undefined || outputPicoUsd === undefined) return undefined;
  const thresholds = new Set(Object.values(present).flatMap(listSteps));
  const above = [...thresholds]
    .toSorted((one, other) => one - other)
    .map(inputTokens => ({
      inputTokens,
      inputPicoUsd: toPico(input, inputTokens) ?? inputPicoUsd,
      outputPicoUsd: toPico(output, inputTokens) ?? outputPicoUsd,
      ...toCaching(present, inputTokens),
    }));
  return { inputPicoUsd, outputPicoUsd, ...toCaching(present, 0), above };
}

/** Returns the prices of a model that is priced by its input alone; undefined if the input has no price. */
function toInputPricing(prices: ConditionalPrice[] | ModelPrice): PricingSettings | undefined {
  const present = Array.isArray(prices) ? findKnownPrice(prices) : prices;
  const inputPicoUsd = toPico(present?.['input_mtok'], 0);
  return inputPicoUsd === undefined ? undefined : { inputPicoUsd, above: [] };
}

/**
 * Returns the latest of several prices that applied on `pricePackageDate`. If they depend on the hour, returns the
 * most expensive ones, so that no request is sold below cost.
 */
function findKnownPrice(prices: readonly ConditionalPrice[]): ModelPrice | undefined {
  const isHourly = prices.some(({ constraint }) => constraint?.type === 'time_of_date');
  const outputPrice = ({ prices: each }: ConditionalPrice): bigint => toPico(each['output_mtok'], 0) ?? 0n;
  if (isHourly) return prices.toSorted((one, other) => Number(outputPrice(other) - outputPrice(one)))[0]?.prices;
  const dated = prices.filter(
    ({ constraint }) => constraint?.type !== 'start_date' || constraint.start_date <= pricePackageDate,
  );
  return dated.at(-1)?.prices;
}

/** The day of the pinned price package. Prices that begin on a later day are not used, whatever the clock says. */
const pricePackageDate = '2026-11-21';

function toCaching(prices: ModelPrice, inputTokens: number): ReturnType<typeof cachingMember> {
  const [read, write5m, write1h] = ['cache_read_mtok', 'cache_write_mtok', 'cache_write_1h_mtok'] as const;
  const price = (name: keyof ModelPrice): bigint | undefined => toPico(prices[name], inputTokens);
  return cachingMember({ readPicoUsd: price(read), write5mPicoUsd: price(write5m), write1hPicoUsd: price(write1h) });
}

function listSteps(price: number | TieredPrices | undefined): number[] {
  return typeof price === 'object' ? price.tiers.map(({ start }) => start) : [];
}

/**
 * Converts a price per million tokens to pico-dollars per token, for requests with more than `inputTokens`; undefined if the price can't be converted exactly.
 */
function toPico(price: number | TieredPrices | undefined, inputTokens: number): bigint | undefined {
  if (price === undefined) return undefined;
  const reached =
    typeof price === 'object' ? price.tiers.filter(({ start }) => start <= inputTokens).at(-1) : undefined;
  const value = typeof price === 'object' ? (reached?.price ?? price.base) : price;
  // The shortest text of the number is the decimal that the package was written with.
  return scaledInteger(String(value), 6);
}
