import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import { type IdSource, ledgerIdOf, publicRequestId } from '../lib/ids.ts';
import type { AdmitCommand, Credential, FundsEstimate, Ledger } from '../ledger/ledger.ts';
import type { RequestStory } from '../telemetry/request-story.ts';
import type { AdmittedOrder } from './admitted-run.ts';
import { isFree, refusal } from './generation/admission.ts';

/** A checked request that is to be admitted. */
export interface OrderToAdmit<Order> extends Pick<
  AdmitCommand,
  'id' | 'requestId' | 'durable' | 'text' | 'endUser' | 'tags' | 'endpoint' | 'batchId'
> {
  readonly order: Order;
  /** What it costs at most; undefined: nothing. */
  readonly funds: FundsEstimate | undefined;
  /** Where what becomes known of it is written; undefined: nobody reads it. */
  readonly story?: RequestStory | undefined;
}

/** Returns both ids of a request. `named`: the one that the edge has given it; null: none. */
export function nameRequest(ids: IdSource, named: string | null): Pick<AdmitCommand, 'id' | 'requestId'> {
  const id = (named === null ? undefined : ledgerIdOf(named)) ?? ids.next();
  return { id, requestId: named ?? publicRequestId(id) };
}

/** Asks the ledger to admit a request: nothing goes upstream without it. `count`: how many answers it asks for; absent: one. Throws what the caller is refused with. */
export async function admitOrder<Order extends { readonly model: Model; readonly count?: number }>(
  ledger: Pick<Ledger, 'admit' | 'findKey'>,
  { order, funds, story, ...command }: OrderToAdmit<Order>,
  { keyId, accountId }: Pick<Credential, 'keyId' | 'accountId'>,
): Promise<AdmittedOrder<Order>> {
  const { model } = order;
  const key = { id: keyId, accountId };
  story?.admissionBegan({ accountId, keyId, model: model.id });
  const free = isFree(model.id);
  const admitted = await ledger.admit({ ...command, key, model: model.id, free, funds, requests: order.count ?? 1 });
  if (admitted.kind === 'denied') {
    story?.admissionEnded(undefined, admitted.code);
    throw await refusal(ledger, admitted, { model, accountId, keyId });
  }
  story?.admissionEnded(admitted.heldNanoUsd);
  return { order, id: command.id, requestId: command.requestId, keyId, admitted, story };
}
