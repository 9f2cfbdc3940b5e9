import type { ConditionalPrice, ModelPrice, Provider, TieredPrices } from '@pydantic/genai-prices';
import { scaledInteger } from './decimal.ts';
import { cachingMember, listedModel } from './listed-model.ts';
import { presetModels } from './preset-models.ts';
import { type Preset, presets } from './presets.ts';
import type { Config, ModelSettings, PricingSettings } from './settings.ts';

/**
 * The configuration with the current models of the presets that are on: those of our table that the price package has a price for. Names that the file has
 * taken, for models or as aliases, stay the file's. The package is loaded only where a preset is on, and never asks the network.
 */
export async function withPresetModels(config: Config): Promise<Config> {
  const on = presets.filter(({ name }) => presetModels[name] !== undefined && isOn(config, name));
  if (on.length === 0) return config;
  const { findProvider } = await import('@pydantic/genai-prices');
  const taken = new Set([...config.models.map(({ id }) => id), ...config.aliases.keys()]);
  const models = on.flatMap(preset => {
    const provider = findProvider({ providerId: preset.name });
    return provider === undefined ? [] : modelsOf(preset, provider).filter(({ id }) => !taken.has(id));
  });
  return Object.freeze({ ...config, models: Object.freeze([...config.models, ...models]) });
}

function isOn({ providers }: Config, name: string): boolean {
  return providers.some(provider => provider.preset === name);
}

function modelsOf(preset: Preset, provider: Provider): ModelSettings[] {
  return (presetModels[preset.name] ?? []).flatMap(({ model, embeds, dimensions, ...facts }) => {
    const found = provider.models.find(({ id }) => id === model);
    const price = embeds ? inputPricingOf : pricingOf;
    const pricing = found === undefined ? undefined : price(found.prices);
    if (found === undefined || pricing === undefined) return [];
    const contextLength = facts.contextLength ?? found.context_window;
    const known = { ...facts, name: found.name ?? found.id, contextLength, pricing };
    const vectors = dimensions ? { dimensions } : {};
    const own = embeds ? { ...vectors, endpoints: ['/v1/embeddings'] as const } : {};
    return [Object.freeze({ ...listedModel(preset, model, known), ...own })];
  });
}

/** The prices of a model; undefined where input or output has none. */
export function pricingOf(prices: ConditionalPrice[] | ModelPrice): PricingSettings | undefined {
  const present = Array.isArray(prices) ? presentOf(prices) : prices;
  const input = present?.['input_mtok'];
  const output = present?.['output_mtok'];
  const inputPicoUsd = picoOf(input, 0);
  const outputPicoUsd = picoOf(output, 0);
  if (present === undefined || inputPicoUsd === undefined || outputPicoUsd === undefined) return undefined;
  const thresholds = new Set(Object.values(present).flatMap(stepsOf));
  const above = [...thresholds]
    .toSorted((one, other) => one - other)
    .map(inputTokens => ({
      inputTokens,
      inputPicoUsd: picoOf(input, inputTokens) ?? inputPicoUsd,
      outputPicoUsd: picoOf(output, inputTokens) ?? outputPicoUsd,
      ...cachingOf(present, inputTokens),
    }));
  return { inputPicoUsd, outputPicoUsd, ...cachingOf(present, 0), above };
}

/** The price of a model that is paid by its input alone; undefined where it has none. */
function inputPricingOf(prices: ConditionalPrice[] | ModelPrice): PricingSettings | undefined {
  const present = Array.isArray(prices) ? presentOf(prices) : prices;
  const inputPicoUsd = picoOf(present?.['input_mtok'], 0);
  return inputPicoUsd === undefined ? undefined : { inputPicoUsd, above: [] };
}

/** Of several prices those that hold from the latest day on that has come; where the hour decides, the dearest, so that none is sold below cost. */
function presentOf(prices: readonly ConditionalPrice[]): ModelPrice | undefined {
  const isHourly = prices.some(({ constraint }) => constraint?.type === 'time_of_date');
  const outputOf = ({ prices: each }: ConditionalPrice): bigint => picoOf(each['output_mtok'], 0) ?? 0n;
  if (isHourly) return prices.toSorted((one, other) => Number(outputOf(other) - outputOf(one)))[0]?.prices;
  const dated = prices.filter(
    ({ constraint }) => constraint?.type !== 'start_date' || constraint.start_date <= knownOn,
  );
  return dated.at(-1)?.prices;
}

/** The day of the price package that is pinned: what it says of later days is not in force yet, whatever the clock says. */
const knownOn = '2026-11-21';

function cachingOf(prices: ModelPrice, inputTokens: number): ReturnType<typeof cachingMember> {
  const [read, write5m, write1h] = ['cache_read_mtok', 'cache_write_mtok', 'cache_write_1h_mtok'] as const;
  const price = (name: keyof ModelPrice): bigint | undefined => picoOf(prices[name], inputTokens);
  return cachingMember(price(read), price(write5m), price(write1h));
}

function stepsOf(price: number | TieredPrices | undefined): number[] {
  return typeof price === 'object' ? price.tiers.map(({ start }) => start) : [];
}

/** A price per million tokens as pico-dollars a token, of requests with more than `inputTokens`; undefined where there is none that is exact. */
function picoOf(price: number | TieredPrices | undefined, inputTokens: number): bigint | undefined {
  if (price === undefined) return undefined;
  const reached =
    typeof price === 'object' ? price.tiers.filter(({ start }) => start <= inputTokens).at(-1) : undefined;
  const value = typeof price === 'object' ? (reached?.price ?? price.base) : price;
  // The shortest text of the number is the decimal that the package was written with.
  return scaledInteger(String(value), 6);
}
