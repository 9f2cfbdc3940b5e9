import type { Clock } from '../../lib/clock.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { type LedgerRequestTools, LedgerRequests } from '../ledger-requests.ts';
import { Credentials } from './credentials.ts';
import { KnownCredentials } from './known-credentials.ts';

/** The dependencies of `readingFrom`. */
export interface RequestTools extends Pick<LedgerRequestTools, 'send' | 'wroteOff'> {
  readonly clock: Clock;
  /** A connection that only reads. */
  readonly db: Connection;
  /** See `KnownCredentials`; shared by all threads that use the ledger. */
  readonly credentialVersion: SharedArrayBuffer;
}

/** Returns the dependencies of `LedgerRequests`, with credentials that are read from the file. */
export function readingFrom({ send, wroteOff, clock, db, credentialVersion }: RequestTools): LedgerRequestTools {
  const stored = new Credentials(db);
  const known = new KnownCredentials(hash => stored.find(hash), credentialVersion);
  const lastId = db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'last_id'");
  return {
    send,
    wroteOff,
    now: () => clock.now(),
    lastId: () => Number(lastId.get()?.value ?? 0n),
    credentials: {
      find: hash => known.find(hash),
      findApiKey: keyId => stored.findApiKey(keyId),
      forget: () => known.forget(),
    },
  };
}

/** The methods of the ledger that every request uses, for workers. Their commands are sent to the thread that opened the ledger. */
export class RequestCommands extends LedgerRequests {
  constructor(tools: RequestTools) {
    super(readingFrom(tools));
  }
}
