import type { Model, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import { type GenerateRequest, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';

/**
 * Service tiers by name: `default` (the standard one), `flex`, `priority`, and further ones for which a model has a factor in `pricing.tiers`. Source:
 * docs/interfaces/models.md "Service tiers".
 */

/** A tier as the messages of the contract have it. */
export type TierFields = Pick<GenerateRequest, 'serviceTier' | 'tierName'>;

/** The name of the standard tier. */
export const standardTier = 'default';

const names: Readonly<Record<ServiceTier, string | undefined>> = {
  [ServiceTier.UNSPECIFIED]: undefined,
  [ServiceTier.DEFAULT]: standardTier,
  [ServiceTier.FLEX]: 'flex',
  [ServiceTier.PRIORITY]: 'priority',
  [ServiceTier.NAMED]: undefined,
};

/** Returns the name of a tier; undefined if none is specified. */
export function readTier({ serviceTier, tierName }: TierFields): string | undefined {
  return serviceTier === ServiceTier.NAMED ? tierName : names[serviceTier];
}

/** Returns the fields of a message for the name of a tier; undefined: none is specified. */
export function toTierFields(name: string | undefined): TierFields {
  if (name === undefined) return { serviceTier: ServiceTier.UNSPECIFIED };
  for (const tier of [ServiceTier.DEFAULT, ServiceTier.FLEX, ServiceTier.PRIORITY] as const) {
    if (names[tier] === name) return { serviceTier: tier };
  }
  return { serviceTier: ServiceTier.NAMED, tierName: name };
}

/** The price factors of tiers for which a model configures none, in thousandths. */
const usualPermille: ReadonlyMap<string, number> = new Map([
  [standardTier, 1000],
  ['flex', 500],
  ['priority', 2000],
]);

/** Returns the price factor of a tier, in thousandths; undefined: the prices have none. */
export function tierFactor({ tierPermille }: Pick<Pricing, 'tierPermille'>, tier: string): number | undefined {
  if (tier === standardTier) return 1000;
  return (Object.hasOwn(tierPermille, tier) ? tierPermille[tier] : undefined) ?? usualPermille.get(tier);
}

/** Returns the tiers that a model has besides the standard one. */
export function listTiers({ serviceTiers, pricing }: Pick<Model, 'serviceTiers' | 'pricing'>): string[] {
  const further = Object.keys(pricing?.tierPermille ?? {}).filter(name => !usualPermille.has(name));
  return [...serviceTiers.flatMap(tier => names[tier] ?? []), ...further];
}

/** Returns whether a model has a tier. */
export function hasTier(model: Pick<Model, 'serviceTiers' | 'pricing'>, tier: string): boolean {
  return tier === standardTier || listTiers(model).includes(tier);
}
