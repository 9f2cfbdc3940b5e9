import { type CacheHint, CacheLifetime } from '../../gen/tollgate/v1/content_pb.ts';

/** Members by which Chat clients hint to an upstream's cache: OpenAI's breakpoint, or Anthropic's `cache_control` as several providers take it. */
export interface CacheMembers {
  readonly cache_control?: { readonly ttl?: string | null | undefined } | null | undefined;
  readonly prompt_cache_breakpoint?: object | null | undefined;
}

/** The hint of a part or tool; undefined where it gives none. */
export function cacheHintOf(value: CacheMembers): CacheHint | undefined {
  const { cache_control: control } = value;
  if (control == null && value.prompt_cache_breakpoint == null) return undefined;
  return { $typeName: 'tollgate.v1.CacheHint', lifetime: lifetimeOf(control?.ttl) };
}

function lifetimeOf(ttl: string | null | undefined): CacheLifetime {
  if (ttl === '1h') return CacheLifetime.CACHE_LIFETIME_1H;
  return ttl === '5m' ? CacheLifetime.CACHE_LIFETIME_5M : CacheLifetime.CACHE_LIFETIME_UNSPECIFIED;
}
