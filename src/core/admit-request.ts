import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import { type IdSource, parseLedgerId, publicRequestId } from '../lib/ids.ts';
import type { AdmitCommand, Credential, FundsEstimate, Ledger } from '../ledger/ledger.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import type { AdmittedRequest } from './admitted-run.ts';
import { isFree, refusal } from './generation/admission.ts';

/** A checked request that has not been admitted yet. */
export interface RequestToAdmit<Prepared> extends Pick<
  AdmitCommand,
  'id' | 'requestId' | 'durable' | 'text' | 'endUser' | 'tags' | 'endpoint' | 'batchId'
> {
  readonly prepared: Prepared;
  /** The highest possible cost; undefined: the request is free. */
  readonly funds: FundsEstimate | undefined;
  /** Collects facts about the request for log, metrics and trace; undefined: they are not collected. */
  readonly telemetry?: RequestTelemetry | undefined;
}

/** Returns the ids of a request, the ledger's and the public one. `edgeRequestId`: the public id that the edge has given the request; null: none. */
export function nameRequest(ids: IdSource, edgeRequestId: string | null): Pick<AdmitCommand, 'id' | 'requestId'> {
  const id = (edgeRequestId === null ? undefined : parseLedgerId(edgeRequestId)) ?? ids.next();
  return { id, requestId: edgeRequestId ?? publicRequestId(id) };
}

/**
 * Admits a request in the ledger; nothing may be sent upstream before this. `count`: how many answers the request asks for; absent: one. Throws the client's error if the ledger refuses.
 */
export async function admitRequest<Prepared extends { readonly model: Model; readonly count?: number }>(
  ledger: Pick<Ledger, 'admit' | 'findKey'>,
  { prepared, funds, telemetry, ...command }: RequestToAdmit<Prepared>,
  { keyId, accountId }: Pick<Credential, 'keyId' | 'accountId'>,
): Promise<AdmittedRequest<Prepared>> {
  const { model } = prepared;
  const key = { id: keyId, accountId };
  telemetry?.admissionBegan({ accountId, keyId, model: model.id });
  const free = isFree(model.id);
  const admitted = await ledger.admit({ ...command, key, model: model.id, free, funds, requests: prepared.count ?? 1 });
  if (admitted.kind === 'denied') {
    telemetry?.admissionEnded(undefined, admitted.code);
    throw await refusal(ledger, admitted, { model, accountId, keyId });
  }
  telemetry?.admissionEnded(admitted.heldNanoUsd);
  return { prepared, id: command.id, requestId: command.requestId, keyId, admitted, telemetry };
}
