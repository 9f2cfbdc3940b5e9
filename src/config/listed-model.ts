import { defined } from '../lib/defined.ts';
import { defaultPaths } from './model-kind.ts';
import type { Preset } from './presets.ts';
import type { CachePricingSettings, ModelSettings } from './settings.ts';

/** The known facts about a preset's text model. */
export type ListedModel = Pick<
  ModelSettings,
  'name' | 'vision' | 'functionCall' | 'reasoning' | 'serviceTiers' | 'pricing'
> & { readonly contextLength: number | undefined; readonly maxOutputTokens: number | undefined };

/** Returns the settings of a preset's text model. */
export function listedModel(preset: Preset, model: string, known: ListedModel): ModelSettings {
  const { contextLength, maxOutputTokens, ...rest } = known;
  return {
    ...rest,
    ...defined({ contextLength, maxOutputTokens }),
    id: `${preset.name}/${model}`,
    description: '',
    ownedBy: preset.name,
    createdAt: 0,
    endpoints: defaultPaths,
    available: true,
    maxSize: '',
    routes: [{ provider: preset.name, model: `${preset.modelPrefix ?? ''}${model}`, priority: 1, weight: 1 }],
  };
}

/** Returns prices of cached input as a member of a model's prices; an empty object if there are none. */
export function cachingMember(prices: {
  readonly [Name in keyof CachePricingSettings]: bigint | undefined;
}): { readonly caching?: CachePricingSettings } {
  const caching = defined(prices);
  return Object.keys(caching).length === 0 ? {} : { caching };
}
