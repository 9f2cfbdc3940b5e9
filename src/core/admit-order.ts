import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import { type IdSource, ledgerIdOf, publicRequestId } from '../lib/ids.ts';
import type { AdmitCommand, Credential, FundsEstimate, Ledger } from '../ledger/ledger.ts';
import type { AdmittedOrder } from './admitted-run.ts';
import { isFree, refusal } from './generation/admission.ts';

/** A checked request that is to be admitted. */
export interface OrderToAdmit<Order> extends Pick<
  AdmitCommand,
  'id' | 'requestId' | 'durable' | 'text' | 'endUser' | 'tags' | 'endpoint'
> {
  readonly order: Order;
  /** What it costs at most; undefined: nothing. */
  readonly funds: FundsEstimate | undefined;
}

/** Returns both ids of a request. `named`: the one that the edge has given it; null: none. */
export function nameRequest(ids: IdSource, named: string | null): Pick<AdmitCommand, 'id' | 'requestId'> {
  const id = (named === null ? undefined : ledgerIdOf(named)) ?? ids.next();
  return { id, requestId: named ?? publicRequestId(id) };
}

/** Asks the ledger to admit a request: nothing goes upstream without it. Throws what the caller is refused with. */
export async function admitOrder<Order extends { readonly model: Model }>(
  ledger: Pick<Ledger, 'admit' | 'findKey'>,
  { order, funds, ...command }: OrderToAdmit<Order>,
  { keyId, accountId }: Pick<Credential, 'keyId' | 'accountId'>,
): Promise<AdmittedOrder<Order>> {
  const { model } = order;
  const key = { id: keyId, accountId };
  const admitted = await ledger.admit({ ...command, key, model: model.id, free: isFree(model.id), funds });
  if (admitted.kind === 'denied') throw await refusal(ledger, admitted, { model, accountId, keyId });
  return { order, id: command.id, requestId: command.requestId, admitted };
}
