import * as z from 'zod';
import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { readTier, standardTier, type TierFields, toTierFields } from '../generation/service-tier.ts';
import { documented } from '../lib/schema-notes.ts';
import type { Json, JsonObject } from './codec.ts';

/** Converts service tiers to and from the protocols, which have different words for the same tiers. */

/** Words for the tiers that every gateway knows. `on_demand` is Groq's, `provisioned` OpenRouter's word for the standard tier (recorded, 2026). */
const words: Readonly<Record<string, string>> = {
  auto: standardTier,
  default: standardTier,
  standard: standardTier,
  standard_only: standardTier,
  on_demand: standardTier,
  provisioned: standardTier,
  flex: 'flex',
  priority: 'priority',
  fast: 'priority',
};

/** The member of a request; `named`: the words of the protocol. Any other word may be a tier of a model: the catalogue decides. */
export function tierWord(...named: readonly string[]): z.ZodType<string | null | undefined> {
  const word = z.string(`must be one of ${named.map(each => `"${each}"`).join(', ')}`).min(1, 'must not be empty');
  return documented(word, { json: { anyOf: [{ enum: named }, { type: 'string' }] } }).nullish();
}

/** Returns the tier that a request names. */
export function decodeServiceTier(word: string | null | undefined): TierFields {
  return toTierFields(word == null ? undefined : readWord(word));
}

function readWord(word: string): string {
  return (Object.hasOwn(words, word) ? words[word] : undefined) ?? word;
}

/** Returns the tier's name in a request; undefined for the standard one. */
export function tierName(tier: TierFields): string | undefined {
  const name = readTier(tier);
  return name === standardTier ? undefined : name;
}

/** Sets the route's tier in the body of a client. For the standard tier, the client's value stays only if it is in `kept`. */
export function patchServiceTier(body: JsonObject, tier: TierFields, kept: readonly string[]): void {
  const name = tierName(tier);
  const sent = body['service_tier'];
  if (name !== undefined) body['service_tier'] = name;
  else if (typeof sent === 'string' && !kept.includes(sent)) delete body['service_tier'];
}

/** Returns the name of the charged tier; `standard`: the protocol's name of the standard tier. */
export function renderServiceTier(tier: TierFields, standard: 'default' | 'standard' = 'default'): string {
  return tierName(tier) ?? standard;
}

const reportedLengthMax = 64;

/** Returns the tier in an upstream's answer; UNSPECIFIED if there is none. A word that is not known is a tier that may have no price. */
export function parseServiceTier(tier: Json | undefined): TierFields {
  if (typeof tier !== 'string' || tier === '') return noTier;
  return toTierFields(readWord(tier.toLowerCase().slice(0, reportedLengthMax)));
}

/** No tier. */
export const noTier: TierFields = { serviceTier: ServiceTier.UNSPECIFIED };
