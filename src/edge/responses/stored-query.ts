import { type Query, refuse, single } from '../query.ts';

/** The queries of stored responses. Parameters that are not documented are ignored. Source: decisions §4. */

const includes = new Set(['reasoning.encrypted_content', 'message.output_text.logprobs']);
const limitMax = 100;

/** What `include` asks for; the official client writes it `include[]`. */
export function readInclude(query: Query): string[] {
  const named = [query['include'] ?? [], query['include[]'] ?? []].flat();
  const unknown = named.find(each => !includes.has(each));
  if (unknown !== undefined) throw refuse('include', `one of ${[...includes].join(', ')}`);
  return named;
}

/** Whether the response is to be streamed, and after which of its events; undefined: not streamed. */
export function readFollow(query: Query): { readonly startingAfter: number } | undefined {
  const stream = single(query, 'stream') ?? 'false';
  if (stream !== 'true' && stream !== 'false') throw refuse('stream', 'true or false');
  const after = single(query, 'starting_after');
  if (after !== undefined && !/^\d{1,9}$/.test(after)) throw refuse('starting_after', 'an integer, at least 0');
  if (stream === 'false') {
    if (after !== undefined) throw refuse('starting_after', 'only with stream=true');
    return undefined;
  }
  return { startingAfter: after === undefined ? -1 : Number(after) };
}

/** A page of input items. */
export interface ItemsPage {
  /** 0: as the core decides. */
  readonly limit: number;
  readonly after: string;
  readonly ascending: boolean;
  readonly include: string[];
}

/** The page that a query asks for. */
export function readItemsPage(query: Query): ItemsPage {
  const limit = single(query, 'limit');
  if (limit !== undefined && !(/^\d{1,3}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= limitMax)) {
    throw refuse('limit', `an integer from 1 to ${limitMax}`);
  }
  const order = single(query, 'order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw refuse('order', 'asc or desc');
  return {
    limit: Number(limit ?? 0),
    after: single(query, 'after') ?? '',
    ascending: order === 'asc',
    include: readInclude(query),
  };
}
