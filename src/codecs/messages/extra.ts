import { type CacheHint, CacheLifetime, type Extra, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Members that only Messages knows, and cache hints, both ways. */

/** The members that Messages alone knows; none where there are none or they belong to another protocol. */
export function extraMembers(extra: Extra | undefined): JsonObject {
  if (extra === undefined || extra.protocol !== Protocol.MESSAGES || extra.json === '') return {};
  return JSON.parse(extra.json) as JsonObject;
}

/** The hint of a block, tool or request; undefined where it gives none. */
export function cacheHintOf(
  control: { readonly ttl?: '5m' | '1h' | null | undefined } | null | undefined,
): CacheHint | undefined {
  if (control == null) return undefined;
  return { $typeName: 'tollgate.v1.CacheHint', lifetime: lifetimes[control.ttl ?? 'none'] };
}

const lifetimes = {
  '1h': CacheLifetime.CACHE_LIFETIME_1H,
  '5m': CacheLifetime.CACHE_LIFETIME_5M,
  none: CacheLifetime.CACHE_LIFETIME_UNSPECIFIED,
} as const;

/** A hint as the member `cache_control`; no member where there is none. */
export function cacheMember(hint: CacheHint | undefined): JsonObject {
  if (hint === undefined) return {};
  const ttl = ttlOf(hint.lifetime);
  return { cache_control: { type: 'ephemeral', ...(ttl === undefined ? {} : { ttl }) } };
}

function ttlOf(lifetime: CacheLifetime): string | undefined {
  if (lifetime === CacheLifetime.CACHE_LIFETIME_1H) return '1h';
  return lifetime === CacheLifetime.CACHE_LIFETIME_5M ? '5m' : undefined;
}
