import { requestIdHeader } from '../../lib/ids.ts';
import type { HeaderReader } from '../../lib/push.ts';
import type { Credential } from '../../ledger/ledger.ts';
import { RequestStory } from '../../telemetry/request-story.ts';

/** An item of a batch on its way to an answer. */
export interface BatchItem {
  /** Whose key pays. */
  readonly credential: Credential;
  readonly batchId: string;
  readonly call: ItemCall;
}

/** The call that nobody has sent: the headers of an item's request, which name it, and what becomes known of it. */
export class ItemCall extends RequestStory implements HeaderReader {
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
