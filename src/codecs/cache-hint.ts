import { type CacheHint, CacheLifetime } from '../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from './codec.ts';
import type { UnknownMembers, UnknownValue } from './schema.ts';

/**
 * Members that are hints for an upstream's prompt cache: Anthropic's `cache_control`, which several providers also accept in Chat, and
 * OpenAI's breakpoint in Chat.
 */
export interface CacheMembers {
  readonly cache_control?: { readonly ttl?: string | null | undefined } | null | undefined;
  readonly prompt_cache_breakpoint?: { readonly ttl?: unknown } | null | undefined;
}

/** Returns the field `cache` with the hint of a block, part, tool or request; an empty object if it has no hint. */
export function cacheHint(members: CacheMembers): { cache?: CacheHint } {
  const { cache_control: control, prompt_cache_breakpoint: breakpoint } = members;
  if (control == null && breakpoint == null) return {};
  const named = control?.ttl ?? breakpoint?.ttl;
  const lifetime = lifetimes.find(([, ttl]) => ttl === named)?.[0] ?? CacheLifetime.CACHE_LIFETIME_UNSPECIFIED;
  return { cache: { $typeName: 'tollgate.v1.CacheHint', lifetime } };
}

/** A checked `cache_control`. */
interface CacheControl {
  readonly type?: string | UnknownValue;
  readonly ttl?: string | UnknownValue | null | undefined;
}

/** Decodes a checked `cache_control` at `path`; its unknown members are collected. */
export function decodeCache(
  control: CacheControl | null | undefined,
  path: string,
  unknown: UnknownMembers,
): { cache?: CacheHint } {
  if (control == null) return {};
  unknown.knownOrWarn(control.type, `${path}.type`);
  return cacheHint({ cache_control: { ttl: unknown.knownOrWarn(control.ttl, `${path}.ttl`) } });
}

const lifetimes = [
  [CacheLifetime.CACHE_LIFETIME_5M, '5m'],
  [CacheLifetime.CACHE_LIFETIME_1H, '1h'],
  // OpenAI's.
  [CacheLifetime.CACHE_LIFETIME_30M, '30m'],
  [CacheLifetime.CACHE_LIFETIME_12H, '12h'],
] as const;
/** The lifetimes of `cache_control`. */
const controlled: readonly string[] = ['5m', '1h'];

/** Returns a hint as the member `cache_control`; an empty object if there is none. */
export function cacheMember(hint: CacheHint | undefined): JsonObject {
  if (hint === undefined) return {};
  const ttl = lifetimes.find(([lifetime]) => lifetime === hint.lifetime)?.[1];
  return { cache_control: { type: 'ephemeral', ...(ttl !== undefined && controlled.includes(ttl) ? { ttl } : {}) } };
}
