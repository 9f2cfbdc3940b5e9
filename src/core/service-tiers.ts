import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';

/** The word of the public interfaces for a tier. */
export type TierName = 'default' | 'flex' | 'priority';

/** The tier that a word names. */
export const tierByName: Readonly<Record<TierName, ServiceTier>> = {
  default: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

/** Returns the name of a tier: `default` for any without a name of its own. */
export function toTierName(tier: ServiceTier): TierName {
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : 'default';
}
