import type { ConditionalPrice, ModelPrice, Provider, TieredPrices } from '@pydantic/genai-prices';
import { scaledInteger } from './decimal.ts';
import { type PresetModel, presetModels } from './preset-models.ts';
import { type Preset, presets } from './presets.ts';
import type { CachePricingSettings, Config, ModelSettings, PricingSettings } from './settings.ts';

/**
 * The configuration with the current models of the presets that are on: those of our table that the price package has a price for. Names that the file has
 * taken, for models or as aliases, stay the file's. The package is loaded only where a preset is on, and never asks the network.
 */
export async function withPresetModels(config: Config): Promise<Config> {
  const on = presets.filter(({ name, prices }) => prices !== undefined && isOn(config, name));
  if (on.length === 0) return config;
  const { findProvider } = await import('@pydantic/genai-prices');
  const taken = new Set([...config.models.map(({ id }) => id), ...config.aliases.keys()]);
  const models = on.flatMap(preset => {
    const provider = findProvider({ providerId: preset.prices ?? '' });
    return provider === undefined ? [] : modelsOf(preset, provider).filter(({ id }) => !taken.has(id));
  });
  return Object.freeze({ ...config, models: Object.freeze([...config.models, ...models]) });
}

function isOn({ providers }: Config, name: string): boolean {
  return providers.some(provider => provider.preset === name);
}

function modelsOf(preset: Preset, provider: Provider): ModelSettings[] {
  return (presetModels[preset.name] ?? []).flatMap(model => {
    const found = provider.models.find(({ id }) => id === model.model);
    const pricing = found === undefined ? undefined : pricingOf(found.prices);
    if (found === undefined || pricing === undefined) return [];
    return [settingsOf(preset, model, { name: found.name ?? found.id, context: found.context_window, pricing })];
  });
}

interface Known {
  readonly name: string;
  readonly context: number | undefined;
  readonly pricing: PricingSettings;
}

function settingsOf(preset: Preset, model: PresetModel, { name, context, pricing }: Known): ModelSettings {
  const contextLength = model.contextLength ?? context;
  const { maxOutputTokens } = model;
  return Object.freeze({
    id: `${preset.name}/${model.model}`,
    name,
    description: '',
    ownedBy: preset.name,
    createdAt: 0,
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    endpoints: ['/v1/chat/completions', '/v1/responses', '/v1/messages'],
    vision: model.vision,
    functionCall: model.functionCall,
    reasoning: model.reasoning,
    serviceTiers: model.serviceTiers,
    available: true,
    pricing,
    maxSize: '',
    routes: [{ provider: preset.name, model: `${preset.modelPrefix ?? ''}${model.model}`, priority: 1, weight: 1 }],
  } as const);
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

function cachingOf(prices: ModelPrice, inputTokens: number): { caching?: CachePricingSettings } {
  const read = picoOf(prices['cache_read_mtok'], inputTokens);
  const write5m = picoOf(prices['cache_write_mtok'], inputTokens);
  const write1h = picoOf(prices['cache_write_1h_mtok'], inputTokens);
  const caching = {
    ...(read === undefined ? {} : { readPicoUsd: read }),
    ...(write5m === undefined ? {} : { write5mPicoUsd: write5m }),
    ...(write1h === undefined ? {} : { write1hPicoUsd: write1h }),
  };
  return Object.keys(caching).length === 0 ? {} : { caching };
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
