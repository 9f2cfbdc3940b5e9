import { MessageChannel } from 'node:worker_threads';
import { HeldIds } from '../../src/gateway/workers/held-ids.ts';
import { LedgerLane, type SentCommands } from '../../src/gateway/workers/ledger-lane.ts';
import { LedgerLink } from '../../src/gateway/workers/ledger-link.ts';
import { LedgerRelay } from '../../src/gateway/workers/ledger-relay.ts';
import { RequestCommands } from '../../src/ledger/sqlite/request-commands.ts';
import type { SqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { ledgerPath } from '../../src/ledger/sqlite/verify.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { openForReading } from '../../src/lib/sqlite/database.ts';
import { readError } from '../../src/rpc/port-errors.ts';

/** The ledger as a worker has it, in the thread of the test. */
export interface WorkerLedger {
  readonly requests: RequestCommands;
  /** Returns the ids of requests that may have holds. */
  listHeld(): number[];
  /** Returns how many commands were sent through the main thread. */
  countRelayed(): number;
  /** Returns how many times the worker was connected with the ledger's thread. */
  countConnected(): number;
  /** Does what the main thread does if the worker ends. */
  end(): void;
  close(): Promise<void>;
}

/** Opens what a worker uses of a ledger, connected with it as worker threads are. */
export function openWorkerLedger(
  ledger: Pick<SqliteLedger, 'relay' | 'connect' | 'credentialVersion'>,
  dataDir: string,
  clock: Clock,
  settleMs = 10_000,
): WorkerLedger {
  const { port1, port2 } = new MessageChannel();
  const memory = HeldIds.makeMemory();
  const relay = new LedgerRelay(replies => port2.postMessage(replies), ledger, memory);
  let relayed = 0;
  let connected = 0;
  port2.on('message', (sent: SentCommands) => {
    relayed += sent[0].length;
    relay.take(sent);
  });
  const link = new LedgerLink({
    lane: new LedgerLane(port1, readError),
    offer: port => {
      connected += 1;
      ledger.connect(port);
    },
    held: new HeldIds(memory),
    settleMs,
    observe: () => undefined,
  });
  const db = openForReading(ledgerPath(dataDir));
  const requests = new RequestCommands({
    send: (command, decode, isBounded) => link.send(command, decode, isBounded),
    db,
    clock,
    credentialVersion: ledger.credentialVersion,
    wroteOff: () => undefined,
  });
  return {
    requests,
    listHeld: () => HeldIds.list(memory),
    countRelayed: () => relayed,
    countConnected: () => connected,
    end: () => relay.end(),
    close: async () => {
      link.close();
      db.close();
      port1.close();
    },
  };
}
