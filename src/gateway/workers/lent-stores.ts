import { serverSecrets } from '../../core/secret-files.ts';
import { currentActor } from '../../ledger/actor.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { RequestCommands } from '../../ledger/sqlite/request-commands.ts';
import { ledgerPath } from '../../ledger/sqlite/verify.ts';
import { systemClock } from '../../lib/clock.ts';
import { openForReading } from '../../lib/sqlite/database.ts';
import type { CallPort } from '../../lib/threads/call-port.ts';
import type { Claims } from '../../store/claims.ts';
import type { Files } from '../../store/files.ts';
import { openLentDocuments } from '../../store/sqlite/documents/sqlite-documents.ts';
import type { Stores } from '../stores.ts';
import type { LedgerLink } from './ledger-link.ts';

/** The dependencies of a worker's stores. */
export interface LentDependencies {
  /** The port to the main thread. */
  readonly port: CallPort;
  readonly link: LedgerLink;
  /** See `KnownCredentials`. */
  readonly credentialVersion: SharedArrayBuffer;
}

/** Opens the stores in a worker. Reads are made in the worker; everything that changes a store is sent to the main thread. */
export function openLentStores(dataDir: string, dependencies: LentDependencies): Stores {
  const { port } = dependencies;
  const claims: Claims = {
    take: (name, mark) => port.call('claims.take', name, mark),
    find: name => port.call('claims.find', name),
    list: prefix => port.call('claims.list', prefix),
    release: name => port.notify('claims.release', name),
  };
  return {
    ledger: openLentLedger(ledgerPath(dataDir), dependencies),
    documents: openLentDocuments(dataDir, systemClock, {
      send: command => port.call('documents.send', command),
      lose: cause => port.notify('documentsLost', cause),
    }),
    files: lentFiles(port),
    claims,
    sharedClaims: claims,
    secrets: serverSecrets(dataDir),
    openBulk: () => {
      throw new Error('large files are opened only by the main thread');
    },
  };
}

/** Opens the parts of the ledger that requests need here. All other methods are called on the main thread. */
function openLentLedger(path: string, { port, link, credentialVersion }: LentDependencies): Ledger {
  const db = openForReading(path);
  const requests = new RequestCommands({
    send: (command, decode, isBounded) => link.send(command, decode, isBounded),
    db,
    clock: systemClock,
    credentialVersion,
    wroteOff: (id, nanoUsd) => port.notify('wroteOff', id, nanoUsd),
  });
  const here: Pick<
    Ledger,
    | 'admit'
    | 'extend'
    | 'settle'
    | 'void'
    | 'windows'
    | 'refusal'
    | 'findCredential'
    | 'findApiKey'
    | 'lastId'
    | 'close'
  > = {
    admit: command => requests.admit(command),
    extend: command => requests.extend(command),
    settle: (command, patience) => requests.settle(command, patience),
    void: (id, reason) => requests.void(id, reason),
    windows: (keyId, free) => requests.windows(keyId, free),
    refusal: keyId => requests.refusal(keyId),
    findCredential: hash => requests.findCredential(hash),
    findApiKey: keyId => requests.findApiKey(keyId),
    get lastId() {
      return requests.lastId;
    },
    close: async () => {
      link.close();
      db.close();
    },
  };
  const there = new Proxy(Object.prototype, {
    get: (own, name, receiver) => {
      if (typeof name === 'symbol' || name === 'then' || name in own)
        return Reflect.get(own, name, receiver) as unknown;
      return (...args: readonly unknown[]) => port.call('ledger.call', name, args, currentActor());
    },
  });
  // As the prototype, so that it is not asked for the methods above, which every request uses. The cast holds: the main thread has a method of every other name, whose arguments and replies can be cloned.
  return Object.setPrototypeOf(here, there) as Ledger;
}

/** Returns the store of images, which a worker only writes: images are read by the main thread's service. */
function lentFiles(port: CallPort): Files {
  return {
    put: (bytes, type) => port.call('files.put', bytes, type),
    delete: name => port.call('files.delete', name),
    open: async () => undefined,
    sweep: async () => 0,
    close: async () => undefined,
  };
}
