import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { inputItemId } from '../../generation/response-ids.ts';

/**
 * Returns the items of one response with distinct ids: an item whose id is taken gets the id of its position, which counts `from` there. A
 * client may send or refer to an item twice, and a paging reader requests the items after an id.
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
