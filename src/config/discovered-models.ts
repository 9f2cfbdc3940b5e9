import { countIn, objectIn, readFacts, type JsonMembers, type ModelDescription, textIn } from './model-facts.ts';
import { scaledInteger } from './decimal.ts';
import { cachingMember, listedModel } from './listed-model.ts';
import type { Preset } from './presets.ts';
import { compilePatterns } from '../lib/text-pattern.ts';
import type { DiscoveredPricing, ModelSettings, PricingAboveSettings, PricingSettings } from './settings.ts';

/**
 * Converts a server's own list of models. Models of local servers have the price that the configuration sets for their names, else they are
 * free. Models of another Tollgate have its prices.
 */

/** The models of a list, and why the others are left out. */
export interface DiscoveredModels {
  readonly models: readonly ModelSettings[];
  /** The reasons, by the server's name of the model. */
  readonly leftOut: Readonly<Record<string, string>>;
}

/** Prices of models whose id matches a pattern. */
export type PriceRules = readonly DiscoveredPricing[];

/** Returns the models in a server's list. `nowMs`: the time of the query, which replaces a missing creation time. */
export function toDiscoveredModels(
  preset: Preset,
  list: readonly ModelDescription[],
  { prices, nowMs }: { readonly prices: PriceRules; readonly nowMs: number },
): DiscoveredModels {
  const models = new Map<string, ModelSettings>();
  const leftOut: Record<string, string> = {};
  for (const description of list) {
    const own = textIn(description.listed['id']);
    const model = own === undefined ? 'has no id' : toModel(preset, own, description, nowMs);
    if (typeof model === 'string') leftOut[own ?? '?'] = model;
    else if (models.get(model.id)?.routes[0]?.model === own) continue;
    else if (models.has(model.id)) leftOut[own ?? '?'] = `has the same name as another model, ${model.id}`;
    else models.set(model.id, { ...model, pricing: ruledPricing(prices, model) ?? model.pricing });
  }
  return { models: [...models.values()], leftOut };
}

/** Returns the model, or why it can't be offered. */
function toModel(preset: Preset, own: string, description: ModelDescription, nowMs: number): ModelSettings | string {
  const { listed } = description;
  const name = offeredName(own);
  if (name === '' || /:(?:flex|priority)$/.test(name)) return 'has a name that can’t be requested';
  const facts = readFacts(description);
  if (!facts.isChat || !hasTextPath(listed['endpoints'])) return 'does not generate text';
  const isFree = name.endsWith(':free');
  const pricing = preset.discovery === 'free' || isFree ? free : pricingIn(listed['pricing']);
  // A model is not offered if its price is unknown.
  if (pricing === undefined) return 'has no price';
  const tiers = objectIn(listed['capabilities'])?.['service_tiers'];
  const { contextLength, vision, functionCall, reasoning, createdAt } = facts;
  const model = listedModel(preset, name, {
    name: textIn(listed['name']) ?? name,
    contextLength,
    maxOutputTokens: countIn(listed['max_output_tokens']),
    vision,
    functionCall,
    reasoning,
    serviceTiers: (['flex', 'priority'] as const).filter(tier => Array.isArray(tiers) && tiers.includes(tier)),
    pricing,
  });
  return {
    ...model,
    createdAt: createdAt ?? Math.floor(nowMs / 1000),
    routes: model.routes.map(route => ({ ...route, model: own })),
  };
}

const idPattern = /^[\w.:@+-]+(\/[\w.:@+-]+)*$/;

/**
 * Returns the name under which a model is offered: the base name of a file, with dashes in place of characters that ids can't contain; '' if
 * no name remains.
 */
function offeredName(own: string): string {
  const isFile = /^(?:[/~.]|[A-Za-z]:[\\/])|\\|\.gguf$/i.test(own);
  if (isFile) return (own.split(/[\\/]/).at(-1) ?? '').replace(/[^\w.:@+-]+/g, '-');
  return idPattern.test(own) ? own : '';
}

/** Returns the prices of the first rule that matches a model; undefined if none matches, or if the model's id says that it is free. */
function ruledPricing(prices: PriceRules, { id }: ModelSettings): PricingSettings | undefined {
  if (id.endsWith(':free')) return undefined;
  return prices.find(({ models }) => compilePatterns(models)(id))?.pricing;
}

const free: PricingSettings = { inputPicoUsd: 0n, outputPicoUsd: 0n, above: [] };

function hasTextPath(endpoints: unknown): boolean {
  return !Array.isArray(endpoints) || endpoints.includes('/v1/chat/completions');
}

function pricingIn(value: unknown): PricingSettings | undefined {
  const pricing = objectIn(value);
  const prices = pricesIn(pricing);
  if (prices === undefined) return undefined;
  const steps = Array.isArray(pricing?.['above']) ? pricing['above'] : [];
  const above = steps.flatMap((step: unknown) => {
    const own = objectIn(step);
    const inputTokens = countIn(own?.['input_tokens']);
    const prices = pricesIn(own);
    return inputTokens === undefined || prices === undefined ? [] : [{ inputTokens, ...prices }];
  });
  return { ...prices, above };
}

function pricesIn(pricing: JsonMembers | undefined): Omit<PricingAboveSettings, 'inputTokens'> | undefined {
  const inputPicoUsd = picoIn(pricing?.['input']);
  const outputPicoUsd = picoIn(pricing?.['output']);
  if (inputPicoUsd === undefined || outputPicoUsd === undefined) return undefined;
  const caching = objectIn(pricing?.['caching']);
  const cached = (name: string): bigint | undefined => picoIn(caching?.[name]);
  return {
    inputPicoUsd,
    outputPicoUsd,
    ...cachingMember({
      readPicoUsd: cached('read'),
      write5mPicoUsd: cached('write_5m'),
      write30mPicoUsd: cached('write_30m'),
      write1hPicoUsd: cached('write_1h'),
      write12hPicoUsd: cached('write_12h'),
    }),
  };
}

/** Converts dollars per million tokens to pico-dollars a token. The text of the number is the decimal that was sent. */
function picoIn(value: unknown): bigint | undefined {
  return typeof value === 'number' ? scaledInteger(String(value), 6) : undefined;
}
