/**
 * The port of large files that are written and read in pieces, and of journals: append-only files of records. Names
 * consist of letters, digits, `-`, `_` and dots inside. Writing throws `GatewayError` `overloaded` if there is no
 * room.
 */
export interface BulkFiles {
  /** Begins a file, which has its name only when it is finished. One of that name is replaced then. */
  create(name: string): Promise<BulkWriter>;
  /** Gives a file a second name, under which it stays when the first is deleted. `not_found`: it is not there. */
  link(name: string, second: string): Promise<'linked' | 'not_found'>;
  /** Opens a file; undefined if it does not exist. The caller closes it. */
  open(name: string): Promise<BulkReader | undefined>;
  /** Opens a journal, and creates it if missing. The caller closes it. */
  openJournal(name: string): Promise<Journal>;
  /** Removes a file or a journal; nothing if it is not there. */
  delete(name: string): Promise<void>;
  /** The names of all finished files and journals. */
  list(): Promise<string[]>;
}

/** A file that is being written. */
export interface BulkWriter {
  /** Its bytes so far. */
  readonly size: number;
  append(bytes: Uint8Array): Promise<void>;
  /** Completes the file: it is durable under its name when the promise resolves. */
  finish(): Promise<void>;
  /** Deletes the draft, at the latest when the gateway has ended. Does nothing once it is finished. Never rejects. */
  discard(): Promise<void>;
}

/** A file that is read. */
export interface BulkReader {
  readonly size: number;
  /** Its next bytes, none at the end. */
  read(): Promise<Buffer>;
  close(): Promise<void>;
}

/** A file of records. */
export interface Journal {
  /** Reads all records in order, and removes a record at the end that a crash left incomplete. Await it before any other call. */
  scan(visit: (record: Uint8Array, place: number) => void): Promise<void>;
  /** Adds a record; returns its place once it is written, `durable`: and on the disk. After a failure nothing is added any more. */
  append(record: Uint8Array, durable: boolean): Promise<number>;
  /** The record at a place. */
  read(place: number): Promise<Uint8Array>;
  /** Closes it after the writes under way. */
  close(): Promise<void>;
}
