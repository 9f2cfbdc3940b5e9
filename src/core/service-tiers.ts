import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';

/** The name of a service tier in the public interfaces. */
export type TierName = 'default' | 'flex' | 'priority';

/** The service tiers by name. */
export const tierByName: Readonly<Record<TierName, ServiceTier>> = {
  default: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

/** Returns the name of a service tier; `default` for all except flex and priority. */
export function toTierName(tier: ServiceTier): TierName {
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : 'default';
}
