import { scaledInteger } from './decimal.ts';
import { cachingMember, listedModel } from './listed-model.ts';
import type { Preset } from './presets.ts';
import type { ModelSettings, PricingAboveSettings, PricingSettings } from './settings.ts';

/** Models that a server listed by itself: local ones cost nothing, those of another Tollgate what it says. */

type Listed = Readonly<Record<string, unknown>>;

const tokensMax = 4_294_967_295;
const idPattern = /^[\w.:@+-]+(\/[\w.:@+-]+)*$/;

/** The models of a list. Entries that are no text models, or have no usable id, are left out. */
export function askedModels(preset: Preset, list: readonly Listed[]): ModelSettings[] {
  const models = new Map<string, ModelSettings>();
  for (const listed of list) {
    const model = modelOf(preset, listed);
    if (model !== undefined && !models.has(model.id)) models.set(model.id, model);
  }
  return [...models.values()];
}

function modelOf(preset: Preset, listed: Listed): ModelSettings | undefined {
  const model = textIn(listed['id']);
  if (model === undefined || !idPattern.test(model) || /:(?:flex|priority)$/.test(model)) return undefined;
  const isFree = model.endsWith(':free');
  const pricing = preset.asked === 'free' || isFree ? free : pricingIn(listed['pricing']);
  // A model whose price nobody knows is not sold.
  if (pricing === undefined || !hasTextPath(listed['endpoints'])) return undefined;
  const capabilities = objectIn(listed['capabilities']);
  const can = (what: string): boolean => (capabilities === undefined ? true : capabilities[what] === true);
  const tiers = capabilities?.['service_tiers'];
  return listedModel(preset, model, {
    name: textIn(listed['name']) ?? model,
    contextLength: contextIn(listed),
    maxOutputTokens: countIn(listed['max_output_tokens']),
    vision: can('vision'),
    functionCall: can('function_call'),
    reasoning: can('reasoning'),
    serviceTiers: (['flex', 'priority'] as const).filter(tier => Array.isArray(tiers) && tiers.includes(tier)),
    pricing,
  });
}

const free: PricingSettings = { inputPicoUsd: 0n, outputPicoUsd: 0n, above: [] };

/** The members that vLLM, llama.cpp and other gateways have for it. */
function contextIn(listed: Listed): number | undefined {
  const named = [listed['context_length'], listed['max_model_len'], objectIn(listed['meta'])?.['n_ctx_train']];
  return named.map(countIn).find(count => count !== undefined);
}

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

function pricesIn(pricing: Listed | undefined): Omit<PricingAboveSettings, 'inputTokens'> | undefined {
  const inputPicoUsd = picoIn(pricing?.['input']);
  const outputPicoUsd = picoIn(pricing?.['output']);
  if (inputPicoUsd === undefined || outputPicoUsd === undefined) return undefined;
  const caching = objectIn(pricing?.['caching']);
  const [read, write5m, write1h] = ['read', 'write_5m', 'write_1h'].map(name => picoIn(caching?.[name]));
  return { inputPicoUsd, outputPicoUsd, ...cachingMember(read, write5m, write1h) };
}

/** Dollars per million tokens as pico-dollars a token; the text of the number is the decimal that was sent. */
function picoIn(value: unknown): bigint | undefined {
  return typeof value === 'number' ? scaledInteger(String(value), 6) : undefined;
}

function countIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= tokensMax ? value : undefined;
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function objectIn(value: unknown): Listed | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Listed) : undefined;
}
