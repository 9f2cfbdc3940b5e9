import { type Query, readInteger, readName, readText, refuse } from '../query.ts';

/** Reads the queries about stored responses. Source: docs/interfaces/responses.md "Stored responses". */

const includes = new Set(['reasoning.encrypted_content', 'message.output_text.logprobs']);
const limits = { min: 1, max: 100 };
const sequenceNumbers = { min: 0, max: 999_999_999 };

/** Reads `include`, which the official client sends as `include[]`. */
export function readInclude(query: Query): string[] {
  const named = [query['include'] ?? [], query['include[]'] ?? []].flat();
  if (named.every(each => includes.has(each))) return named;
  throw refuse(query, 'include', `must be one of ${[...includes].join(', ')}`);
}

/** Returns the number of the event after which the stream begins (-1: with the first); undefined if the response is not to be streamed. */
export function readFollow(query: Query): { readonly startingAfter: number } | undefined {
  const isStream = readName(query, 'stream', ['true', 'false']) === 'true';
  const startingAfter = readInteger(query, 'starting_after', sequenceNumbers);
  if (isStream) return { startingAfter: startingAfter ?? -1 };
  if (startingAfter !== undefined) throw refuse(query, 'starting_after', 'must be sent only with stream=true');
  return undefined;
}

/** Reads the requested page of input items; `limit` 0 means the core's default. */
export function readItemsPage(query: Query) {
  return {
    limit: readInteger(query, 'limit', limits) ?? 0,
    after: readText(query, 'after') ?? '',
    ascending: readName(query, 'order', ['asc', 'desc']) === 'asc',
    include: readInclude(query),
  };
}
