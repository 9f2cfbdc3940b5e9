import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ListModelsRequestSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { endpointPaths } from './model-json.ts';
import { type Query, refuse, single } from './query.ts';

/** The query of `GET /v1/models`. Parameters that are not documented are ignored, as clients add their own (`?beta=true`). Source: decisions §4. */

/** Which part of the list is wanted. Absent `limit`: all of it. */
export interface Page {
  readonly limit?: number;
  readonly afterId?: string;
  readonly beforeId?: string;
}

/** A page of a list, with the Anthropic interface's cursors. */
export interface PageOf<T> {
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

const endpoints = [
  Endpoint.CHAT_COMPLETIONS,
  Endpoint.RESPONSES,
  Endpoint.MESSAGES,
  Endpoint.IMAGE_GENERATIONS,
  Endpoint.IMAGE_EDITS,
] as const;
const capabilities = ['vision', 'function_call', 'reasoning', 'flex', 'priority'];
const limitMax = 1000;

function oneOf(query: Query, parameter: string, allowed: readonly string[]): string | undefined {
  const value = single(query, parameter);
  if (value === undefined || allowed.includes(value)) return value;
  throw refuse(parameter, `one of ${allowed.join(', ')}`);
}

function truth(query: Query, parameter: string): boolean | undefined {
  const value = oneOf(query, parameter, ['true', 'false']);
  return value === undefined ? undefined : value === 'true';
}

/** The filter that a query asks for. Throws `invalid_request` naming the parameter. */
export function readFilter(query: Query): MessageInitShape<typeof ListModelsRequestSchema> {
  const path = oneOf(query, 'endpoint', Object.values(endpointPaths));
  const free = truth(query, 'free');
  const available = truth(query, 'available');
  return {
    endpoint: endpoints.find(endpoint => endpointPaths[endpoint] === path) ?? Endpoint.UNSPECIFIED,
    capability: oneOf(query, 'capability', capabilities) ?? '',
    query: single(query, 'q') ?? '',
    ...(free === undefined ? {} : { free }),
    ...(available === undefined ? {} : { available }),
  };
}

/** The page that a query asks for. Throws `invalid_request` naming the parameter. */
export function readPage(query: Query): Page {
  const limit = single(query, 'limit');
  const afterId = single(query, 'after_id');
  const beforeId = single(query, 'before_id');
  if (limit !== undefined && !(/^\d{1,4}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= limitMax)) {
    throw refuse('limit', `an integer from 1 to ${limitMax}`);
  }
  if (afterId !== undefined && beforeId !== undefined) throw refuse('before_id', 'not together with after_id');
  return {
    ...(limit === undefined ? {} : { limit: Number(limit) }),
    ...(afterId === undefined ? {} : { afterId }),
    ...(beforeId === undefined ? {} : { beforeId }),
  };
}

/** Cuts a page out of a list: the first items after `afterId`, or the last ones before `beforeId`. Throws `invalid_request` where the cursor is not in the list. */
export function pageOf<T extends { readonly id: string }>(list: readonly T[], page: Page): PageOf<T> {
  const { limit = list.length, afterId, beforeId } = page;
  const cut = (parameter: string, id: string): number => {
    const index = list.findIndex(item => item.id === id);
    if (index === -1) throw refuse(parameter, 'no listed model has this id');
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
