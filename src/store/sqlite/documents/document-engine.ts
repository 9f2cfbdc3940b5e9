import { crc32 } from 'node:zlib';
import type { Chunk, DocumentChange, DocumentName, NewDocument, PutOutcome } from '../../documents.ts';
import { type Connection, isStorageFailure, mayLoseWrites, type Query } from '../../../lib/sqlite/database.ts';
import { StorageLost } from '../../../lib/sqlite/storage-lost.ts';
import { ownMemory } from '../../../lib/own-memory.ts';
import { type DocumentOwner, Eviction, type SpaceMax } from './eviction.ts';
import { DocumentRows, sumLength, measureSize } from './rows.ts';

/** A command to the writer. */
export type DocumentCommand =
  | { readonly kind: 'put'; readonly document: NewDocument }
  | { readonly kind: 'update'; readonly change: DocumentChange }
  | { readonly kind: 'delete'; readonly name: DocumentName }
  /** Makes a write without effect, to find out whether writing works. */
  | { readonly kind: 'probe' };

/** A command, and the time at which it was sent. */
export interface TimedCommand {
  readonly nowMs: number;
  readonly command: DocumentCommand;
}

/**
 * The result of a command. `failed`: the command failed and changed nothing. `storage`: the batch could not be written.
 * `full`: there is no room.
 */
export type DocumentReply =
  | { readonly outcome: 'done'; readonly value: unknown }
  | { readonly outcome: 'failed' | 'storage' | 'full'; readonly message: string };

/** Copying fewer bytes costs less than moving them. */
const movedBytesMin = 1024 ** 2;

/** Returns the large contents of a command whose memory the caller does not use any more. */
export function handedOver(command: DocumentCommand): Uint8Array<ArrayBuffer>[] {
  const content = command.kind === 'put' ? command.document : command.kind === 'update' ? command.change : undefined;
  if (content?.handsOver !== true) return [];
  const { body, chunks = [] } = content;
  const large = [body, ...chunks.map(chunk => chunk.content)].filter(
    each => each !== undefined && each.length >= movedBytesMin,
  );
  return large.map(each => each && ownMemory(each)).filter(each => each !== undefined);
}

/** Thrown if there is no room for a document, even after everything that may be evicted. */
class StoreFull extends Error {
  override readonly name = 'StoreFull';
}

/** The only writer of the file: runs batches of commands, each batch one transaction, in the order of arrival. */
export class DocumentEngine {
  readonly #db: Connection;
  readonly #rows: DocumentRows;
  readonly #eviction: Eviction;
  readonly #insertChunk: Query<[number, number, Uint8Array, number], unknown>;

  /** The file must have the current schema. */
  constructor(db: Connection, max: SpaceMax) {
    this.#db = db;
    this.#rows = new DocumentRows(db);
    this.#eviction = new Eviction(db, this.#rows, max);
    this.#insertChunk = db.prepare('INSERT INTO chunk (document, seq, content, crc) VALUES (?, ?, ?, ?)');
  }

  /** Runs a batch, and returns its replies once it is on the disk. Throws only `StorageLost`. */
  run(batch: readonly TimedCommand[]): DocumentReply[] {
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const replies = batch.map(command => this.#executeApart(command));
      this.#eviction.sweep(batch.at(-1)?.nowMs ?? 0);
      this.#db.exec('COMMIT');
      return replies;
    } catch (error) {
      if (mayLoseWrites(error)) throw new StorageLost(error);
      // A full disk makes SQLite itself roll back.
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
      this.#eviction.forget();
      return batch.map(() => ({ outcome: 'storage', message: errorMessage(error) }));
    }
  }

  /** Removes some expired documents. Returns true if there may be more. Call it when no command is waiting. */
  tidy(nowMs: number): boolean {
    return this.#eviction.tidy(nowMs);
  }

  #executeApart({ nowMs, command }: TimedCommand): DocumentReply {
    this.#db.exec('SAVEPOINT one');
    try {
      const value = this.#execute(command, nowMs);
      this.#db.exec('RELEASE one');
      return { outcome: 'done', value };
    } catch (error) {
      if (isStorageFailure(error)) throw error;
      this.#db.exec('ROLLBACK TO one');
      this.#db.exec('RELEASE one');
      this.#eviction.forget();
      return { outcome: error instanceof StoreFull ? 'full' : 'failed', message: errorMessage(error) };
    }
  }

  #execute(command: DocumentCommand, nowMs: number): unknown {
    if (command.kind === 'put') return this.#put(command.document, nowMs);
    if (command.kind === 'update') return this.#update(command.change, nowMs);
    if (command.kind === 'probe') return this.#eviction.touch();
    return this.#delete(command.name, nowMs);
  }

  #put(document: NewDocument, nowMs: number): PutOutcome {
    const there = this.#rows.head(document);
    if (there !== undefined) {
      if (there.ends_at_ms > nowMs || there.children > 0) {
        return { kind: 'exists', document: this.#rows.read(there) };
      }
      this.#eviction.remove(there.row, nowMs);
    }
    const parent = this.#findParent(document);
    if (parent === undefined) return { kind: 'no_parent' };
    this.#makeRoom(document, measureSize(document), nowMs, parent);
    const row = this.#rows.insert(document, parent);
    this.#addChunks(row, document.chunks ?? []);
    this.#eviction.grow(document, measureSize(document));
    return { kind: 'stored' };
  }

  /** Returns the row of the document that a new one continues; null if it continues none; undefined if the named one does not exist. */
  #findParent({ kind, accountId, parentId }: NewDocument): number | null | undefined {
    if (parentId === undefined) return null;
    const parent = this.#rows.head({ kind, id: parentId });
    return parent?.account_id === accountId ? parent.row : undefined;
  }

  #update(change: DocumentChange, nowMs: number): 'updated' | 'not_found' | 'other_state' {
    const head = this.#rows.head(change);
    if (head === undefined || head.ends_at_ms <= nowMs) return 'not_found';
    if (change.ifState !== undefined && change.ifState !== head.state) return 'other_state';
    const { body, chunks = [] } = change;
    const growth = sumLength(chunks) + (body === undefined ? 0 : body.length - this.#rows.bodyLength(head.row));
    const owner = { kind: head.kind, accountId: head.account_id };
    this.#makeRoom(owner, growth, nowMs, head.row);
    this.#rows.change(head, change, head.bytes + growth);
    this.#addChunks(head.row, chunks);
    this.#eviction.grow(owner, growth);
    return 'updated';
  }

  #delete(name: DocumentName, nowMs: number): 'deleted' | 'not_found' {
    const head = this.#rows.head(name);
    if (head === undefined || head.ends_at_ms <= nowMs) return 'not_found';
    this.#eviction.end(head, nowMs);
    return 'deleted';
  }

  /** Makes room for `growth` more bytes of an owner. Throws `StoreFull`. `spared`: a document that is not evicted. */
  #makeRoom(owner: DocumentOwner, growth: number, nowMs: number, spared: number | null): void {
    if (growth > 0 && !this.#eviction.makeRoom(owner, growth, nowMs, spared)) {
      throw new StoreFull('There is no room for the document.');
    }
  }

  #addChunks(row: number, chunks: readonly Chunk[]): void {
    for (const { seq, content } of chunks) this.#insertChunk.run(row, seq, content, crc32(content));
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
