import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { inputItemId } from '../../generation/response-ids.ts';

/**
 * Items of one response, those with an id that another item has already under the id of their place, which counts `from` there: a client may send or refer to an item
 * twice, and who reads page by page asks for what comes after an id.
 */
export function withDistinctIds(
  responseId: string,
  items: readonly Item[],
  { taken, from }: { taken: Set<string>; from: number },
): Item[] {
  return items.map((item, index) => {
    const id = taken.has(item.id) ? inputItemId(responseId, item, from + index) : item.id;
    taken.add(id);
    return id === item.id ? item : { ...item, id };
  });
}
