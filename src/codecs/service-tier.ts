import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import type { Json, JsonObject } from './codec.ts';

/** Converts service tiers to and from the protocols, which have different names for the standard tier. */

const named = {
  auto: ServiceTier.DEFAULT,
  default: ServiceTier.DEFAULT,
  standard: ServiceTier.DEFAULT,
  standard_only: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
} as const;

/** Returns the tier that a request names. */
export function decodeServiceTier(name: keyof typeof named | null | undefined): ServiceTier {
  return name == null ? ServiceTier.UNSPECIFIED : named[name];
}

/** Returns the tier's name in a request; undefined for the standard one. */
export function tierName(tier: ServiceTier): string | undefined {
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : undefined;
}

/** Sets the route's tier in the body of a client. For the standard tier, the client's value stays only if it is in `kept`. */
export function patchServiceTier(body: JsonObject, tier: ServiceTier, kept: readonly string[]): void {
  const name = tierName(tier);
  const sent = body['service_tier'];
  if (name !== undefined) body['service_tier'] = name;
  else if (typeof sent === 'string' && Object.hasOwn(named, sent) && !kept.includes(sent)) delete body['service_tier'];
}

/** Returns the name of the charged tier; `standard`: the protocol's name of the standard tier. */
export function renderServiceTier(tier: ServiceTier, standard: 'default' | 'standard' = 'default'): string {
  return tierName(tier) ?? standard;
}

/** Returns the tier in an upstream's answer; UNSPECIFIED if there is none or it is unknown. */
export function parseServiceTier(tier: Json | undefined, standard: 'default' | 'standard' = 'default'): ServiceTier {
  if (tier === 'flex' || tier === 'priority') return named[tier];
  return tier === standard ? ServiceTier.DEFAULT : ServiceTier.UNSPECIFIED;
}
