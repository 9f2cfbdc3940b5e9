import { requestIdHeader } from '../../lib/ids.ts';
import type { HeaderReader } from '../../lib/push.ts';
import type { Credential } from '../../ledger/ledger.ts';

/** An item of a batch on its way to an answer. */
export interface BatchItem {
  /** Whose key pays. */
  readonly credential: Credential;
  /** The public id of its request. */
  readonly requestId: string;
  readonly batchId: string;
}

/** The headers of a call that nobody has sent: the request's id alone. */
export class NamedRequest implements HeaderReader {
  readonly #requestId: string;

  constructor(requestId: string) {
    this.#requestId = requestId;
  }

  get(name: string): string | null {
    return name === requestIdHeader ? this.#requestId : null;
  }

  has(name: string): boolean {
    return name === requestIdHeader;
  }
}
