import { requestIdHeader } from '../../lib/ids.ts';
import type { HeaderReader } from '../../lib/push.ts';
import type { Credential } from '../../ledger/ledger.ts';
import { RequestTelemetry } from '../../telemetry/request-telemetry.ts';

/** One item of a batch while it runs. */
export interface BatchItem {
  /** The key that pays. */
  readonly credential: Credential;
  readonly batchId: string;
  readonly call: ItemCall;
}

/** Stands in for the call of a client, which an item of a batch does not have: it has the header with the id of the item's request, and collects facts about the request. */
export class ItemCall extends RequestTelemetry implements HeaderReader {
  /** The public id of the request. */
  readonly requestId: string;

  constructor(requestId: string) {
    super();
    this.requestId = requestId;
  }

  get(name: string): string | null {
    return name === requestIdHeader ? this.requestId : null;
  }

  has(name: string): boolean {
    return name === requestIdHeader;
  }
}
