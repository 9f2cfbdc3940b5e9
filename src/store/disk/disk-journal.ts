import { Buffer } from 'node:buffer';
import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type { Journal } from '../bulk-files.ts';

/** A record begins with its length and its checksum, of 4 bytes each; its bytes follow. */
const headBytes = 8;
const scanBytes = 262_144;

/**
 * Opens the journal at a path; creates it if it does not exist. `onGrown` is called with each change of its size; `asFailure` converts errors of
 * the file system.
 */
export async function openJournal(path: string, { onGrown, asFailure }: JournalWatch): Promise<Journal> {
  const handle = await open(path, 'a+', 0o600);
  await handle.close();
  return new DiskJournal(await open(path, 'r+'), { onGrown, asFailure });
}

interface JournalWatch {
  readonly onGrown: (bytes: number) => void;
  readonly asFailure: (thrown: unknown) => Error;
}

interface Waiting {
  readonly bytes: Buffer;
  readonly isDurable: boolean;
  readonly resolve: () => void;
  readonly reject: (thrown: unknown) => void;
}

class DiskJournal implements Journal {
  readonly #handle: FileHandle;
  readonly #watch: JournalWatch;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** The position of the next record. */
  #end = 0;
  #failure: Error | undefined;

  constructor(handle: FileHandle, watch: JournalWatch) {
    this.#handle = handle;
    this.#watch = watch;
  }

  async scan(visit: (record: Uint8Array, place: number) => void): Promise<void> {
    const { size } = await this.#handle.stat();
    let rest = Buffer.alloc(0);
    let readAt = 0;
    while (readAt < size) {
      const { buffer, bytesRead } = await this.#handle.read(Buffer.allocUnsafe(scanBytes), 0, scanBytes, readAt);
      if (bytesRead === 0) break;
      readAt += bytesRead;
      rest = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
      for (let record = readRecord(rest); record !== undefined; record = readRecord(rest)) {
        visit(record, this.#end);
        this.#end += headBytes + record.length;
        rest = rest.subarray(headBytes + record.length);
      }
      // The records end at the first bytes that are not a complete record, unless the rest of the record has not been read yet.
      if (rest.length >= headBytes && rest.length >= headBytes + rest.readUInt32LE(0)) break;
    }
    if (this.#end === size) return;
    await this.#handle.truncate(this.#end);
    this.#watch.onGrown(this.#end - size);
  }

  async append(record: Uint8Array, durable: boolean): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    const head = Buffer.allocUnsafe(headBytes);
    head.writeUInt32LE(record.length, 0);
    head.writeUInt32LE(crc32(record), 4);
    const place = this.#end;
    const bytes = Buffer.concat([head, record]);
    this.#end += bytes.length;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ bytes, isDurable: durable, resolve, reject });
    this.#writing ??= this.#write(place);
    await promise;
    return place;
  }

  async read(place: number): Promise<Uint8Array> {
    const head = Buffer.alloc(headBytes);
    await this.#handle.read(head, 0, headBytes, place);
    const record = Buffer.alloc(head.readUInt32LE(0));
    await this.#handle.read(record, 0, record.length, place + headBytes);
    if (crc32(record) !== head.readUInt32LE(4)) throw new Error(`the journal has no record at ${place}`);
    return record;
  }

  async close(): Promise<void> {
    this.#failure ??= new Error('the journal is closed');
    await this.#writing;
    await this.#handle.close();
  }

  /** Writes the waiting records and those that arrive meanwhile: each sync covers all records that arrived during the previous sync. Never rejects. */
  async #write(from: number): Promise<void> {
    let at = from;
    let batch: Waiting[] = [];
    try {
      while (this.#waiting.length > 0) {
        batch = this.#waiting;
        this.#waiting = [];
        const bytes = Buffer.concat(batch.map(each => each.bytes));
        await writeWhole(this.#handle, bytes, at);
        if (batch.some(({ isDurable }) => isDurable)) await this.#handle.datasync();
        at += bytes.length;
        this.#watch.onGrown(bytes.length);
        for (const { resolve } of batch) resolve();
      }
    } catch (thrown) {
      this.#failure ??= this.#watch.asFailure(thrown);
      for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(this.#failure);
    } finally {
      this.#writing = undefined;
    }
  }
}

/** Writes all bytes at a position. One call may write only some of them, for example if the disk gets full; the next call then fails. */
async function writeWhole(handle: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw new Error('the file system writes nothing and reports no error');
    done += bytesWritten;
  }
}

/** Returns the first record in some bytes; undefined if they do not begin with a complete one. */
function readRecord(bytes: Buffer): Buffer | undefined {
  if (bytes.length < headBytes) return undefined;
  const length = bytes.readUInt32LE(0);
  // After a power cut, bytes that were not written can be zeroes.
  if (length === 0 || bytes.length < headBytes + length) return undefined;
  const record = bytes.subarray(headBytes, headBytes + length);
  return crc32(record) === bytes.readUInt32LE(4) ? record : undefined;
}
