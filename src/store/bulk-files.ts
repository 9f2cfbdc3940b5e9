/**
 * The interface of a store for large files, which are written and read in pieces, and for journals, which are append-only
 * files of records. A name consists of letters, digits, `-`, `_` and, except at its beginning and end, dots. Writing throws
 * `GatewayError` `overloaded` if there is no room.
 */
export interface BulkFiles {
  /** Begins to write a file. It gets its name only when it is finished, and then replaces a file of that name. `share`: the part of the space that may be in use while it grows; absent: all of it. */
  create(name: string, share?: number): Promise<BulkWriter>;
  /** Gives a file a second name: it stays under this name if the first one is deleted. `not_found`: there is no such file. */
  link(name: string, second: string): Promise<'linked' | 'not_found'>;
  /** Opens a file; undefined if it does not exist. The caller closes it. */
  open(name: string): Promise<BulkReader | undefined>;
  /** Opens a journal; creates it if it does not exist. The caller closes it. */
  openJournal(name: string): Promise<Journal>;
  /** Removes a file or a journal. Does nothing if it does not exist. */
  delete(name: string): Promise<void>;
  /** Returns the names of all finished files and journals. */
  list(): Promise<string[]>;
}

/** A file that is being written. */
export interface BulkWriter {
  /** The number of bytes written so far. */
  readonly size: number;
  append(bytes: Uint8Array): Promise<void>;
  /** Completes the file. When the promise resolves, it is durable under its name. */
  finish(): Promise<void>;
  /** Deletes the unfinished file, at the latest when the gateway has ended. Does nothing if it is finished. Never rejects. */
  discard(): Promise<void>;
}

/** A file that is open for reading. */
export interface BulkReader {
  readonly size: number;
  /** Returns the next bytes; an empty buffer at the end. */
  read(): Promise<Buffer>;
  close(): Promise<void>;
}

/** An append-only file of records. */
export interface Journal {
  /** Reads all records, in order. Removes an incomplete record that a crash has left at the end. Must have resolved before any other call. */
  scan(visit: (record: Uint8Array, place: number) => void): Promise<void>;
  /** Adds a record. Resolves with its place once it is written, or, if `durable` is true, once it is on the disk. After a failure no record can be added any more. */
  append(record: Uint8Array, durable: boolean): Promise<number>;
  /** Returns the record at a place. */
  read(place: number): Promise<Uint8Array>;
  /** Closes the journal once all writes have ended. */
  close(): Promise<void>;
}
