import type { Batch } from '../../gen/tollgate/v1/batch_pb.ts';
import type { BatchLine, ItemName } from '../../generation/batches/batch-codec.ts';

/** Returns how an item of a batch is named in its results. */
export function itemName(
  { id, endpoint }: Pick<Batch, 'id' | 'endpoint'>,
  item: number,
  { customId }: BatchLine,
): ItemName {
  return { customId, endpoint, itemId: `batch_req_${id.slice(id.indexOf('_') + 1)}_${item}` };
}
