import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import type { Json } from './codec.ts';

/** Service tiers in the words of Chat Completions and Responses. */

/** The tier that was billed. */
export function renderServiceTier(tier: ServiceTier): string {
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : 'default';
}

/** The tier that an upstream names; UNSPECIFIED where it names none that is known. */
export function parseServiceTier(tier: Json | undefined): ServiceTier {
  if (tier === 'flex') return ServiceTier.FLEX;
  if (tier === 'priority') return ServiceTier.PRIORITY;
  return tier === 'default' ? ServiceTier.DEFAULT : ServiceTier.UNSPECIFIED;
}
