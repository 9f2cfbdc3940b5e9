import { type Query, readInteger, readName, readText, refuse } from '../query.ts';

/** The queries of stored responses. Source: docs/interfaces/responses.md "Stored responses". */

const includes = new Set(['reasoning.encrypted_content', 'message.output_text.logprobs']);
const limits = { min: 1, max: 100 };
const sequenceNumbers = { min: 0, max: 999_999_999 };

/** Reads `include`; the official client writes it `include[]`. */
export function readInclude(query: Query): string[] {
  const named = [query['include'] ?? [], query['include[]'] ?? []].flat();
  if (named.every(each => includes.has(each))) return named;
  throw refuse(query, 'include', `must be one of ${[...includes].join(', ')}`);
}

/** Returns whether the response is to be streamed, and after which of its events (-1: all); undefined: not streamed. */
export function readFollow(query: Query): { readonly startingAfter: number } | undefined {
  const isStream = readName(query, 'stream', ['true', 'false']) === 'true';
  const startingAfter = readInteger(query, 'starting_after', sequenceNumbers);
  if (isStream) return { startingAfter: startingAfter ?? -1 };
  if (startingAfter !== undefined) throw refuse(query, 'starting_after', 'must be sent only with stream=true');
  return undefined;
}

/** Reads the requested page of input items; `limit` 0: the core's default. */
export function readItemsPage(query: Query) {
  return {
    limit: readInteger(query, 'limit', limits) ?? 0,
    after: readText(query, 'after') ?? '',
    ascending: readName(query, 'order', ['asc', 'desc']) === 'asc',
    include: readInclude(query),
  };
}
