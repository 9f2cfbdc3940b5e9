import type { Extra, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from './codec.ts';
import { extraOf } from './content.ts';
import { countIn, objectIn, unknownMembers } from './json.ts';

/** Usage as Chat Completions and Responses break it down: what is cached and written stands inside the input. Source: wire.md C3. */

/** The input in buckets that do not overlap. `cached`: read from a cache, absent where nothing says so; `details`: what was written. Parts that come to more than the whole are left out. */
export function inputBuckets(
  whole: number | undefined,
  cached: number | undefined,
  details: JsonObject,
): Partial<Usage> {
  if (whole === undefined) return {};
  const written = countIn(details['cache_write_tokens']);
  const rest = whole - (cached ?? 0) - (written ?? 0);
  if (rest < 0) return { inputTokens: whole };
  const written1h = Math.min(countIn(details['cache_write_1h_tokens']) ?? 0, written ?? 0);
  return {
    inputTokens: rest,
    ...(cached === undefined ? {} : { cacheReadTokens: cached }),
    ...(written === undefined ? {} : { cacheWrite5mTokens: written - written1h }),
    ...(written1h === 0 ? {} : { cacheWrite1hTokens: written1h }),
  };
}

/** Members of a usage that the model does not know, for clients of its protocol. `known`: its own, and by name those of the objects in it. */
export function extraOfUsage(
  protocol: Protocol,
  usage: JsonObject,
  known: { readonly own: ReadonlySet<string>; readonly inside: Readonly<Record<string, ReadonlySet<string>>> },
): Extra | undefined {
  const rest: Record<string, unknown> = unknownMembers(usage, known.own) ?? {};
  for (const name in known.inside) {
    const inner = unknownMembers(objectIn(usage[name]) ?? {}, known.inside[name] ?? new Set());
    if (inner !== undefined) rest[name] = inner;
  }
  for (const _ in rest) return extraOf(protocol, JSON.stringify(rest));
  return undefined;
}
