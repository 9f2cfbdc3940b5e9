import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { endpointPaths } from '../rpc/resources.ts';
import { type Query, readInteger, readName, readText, refuse } from './query.ts';

/** The query of `GET /v1/models`. Source: docs/interfaces/models.md "The list". */

/** The requested part of the list; without `limit`, all of it. */
interface Page {
  readonly limit?: number | undefined;
  readonly afterId?: string | undefined;
  readonly beforeId?: string | undefined;
}

const truths = ['true', 'false'] as const;
const capabilities = ['vision', 'function_call', 'reasoning', 'flex', 'priority'] as const;
const limits = { min: 1, max: 1000 };

/** Reads the requested filter. */
export function readFilter(query: Query) {
  const path = readName(query, 'endpoint', [...endpointPaths.values()]);
  const free = readName(query, 'free', truths);
  const available = readName(query, 'available', truths);
  return {
    endpoint: endpointPaths.entries().find(([, each]) => each === path)?.[0] ?? Endpoint.UNSPECIFIED,
    capability: readName(query, 'capability', capabilities) ?? '',
    query: readText(query, 'q') ?? '',
    free: free && free === 'true',
    available: available && available === 'true',
  };
}

/** Reads the requested page. */
export function readPage(query: Query): Page {
  const limit = readInteger(query, 'limit', limits);
  const afterId = readText(query, 'after_id');
  const beforeId = readText(query, 'before_id');
  if (afterId === undefined || beforeId === undefined) return { limit, afterId, beforeId };
  throw refuse(query, 'before_id', 'must not be sent together with after_id');
}

/**
 * Returns a page of a list, by the cursors of the Anthropic interface: the first items after `afterId`, or the last ones before `beforeId`. Throws `invalid_request` if
 * the cursor is not in the list.
 */
export function takePage<T extends { readonly id: string }>(list: readonly T[], page: Page) {
  const { limit = list.length, afterId, beforeId } = page;
  const cut = (parameter: string, id: string): number => {
    const index = list.findIndex(item => item.id === id);
    if (index === -1) throw refuse({ [parameter]: id }, parameter, 'must be the id of a listed model');
    return index;
  };
  const from = afterId === undefined ? 0 : cut('after_id', afterId) + 1;
  const to = beforeId === undefined ? list.length : cut('before_id', beforeId);
  const whole = list.slice(from, to);
  const data = beforeId === undefined ? whole.slice(0, limit) : whole.slice(Math.max(0, whole.length - limit));
  return {
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: data.length < whole.length,
  };
}
