import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { inputItemId } from '../../generation/response-ids.ts';

/**
 * Returns the items of one response with distinct ids: an item whose id is in `taken` gets an id made from its position. `from`: the position of the first item. `taken`: ids that are in use; the ids of
 * these items are added. Ids must be distinct because a client may send or refer to an item twice, and lists are continued after an id.
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
