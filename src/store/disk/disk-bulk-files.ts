import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, link, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { BulkFiles, BulkReader, BulkWriter, Journal } from '../bulk-files.ts';
import { openJournal } from './disk-journal.ts';

interface DiskBulkFilesOptions {
  /** The folder of the files; it is created if it does not exist. Nothing else may be in it. */
  readonly folder: string;
  /** Returns the most bytes that all files together may have. */
  readonly bytesMax: () => number;
}

const drafts = '.draft';
const readBytes = 262_144;
const namePattern = /^[\w-]+(?:\.\w+)*$/;

/** Opens the large files of a folder. Removes unfinished files that a crash has left. */
export function openDiskBulkFiles(options: DiskBulkFilesOptions): BulkFiles {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  return new DiskBulkFiles(options);
}

class DiskBulkFiles implements BulkFiles {
  readonly #options: DiskBulkFilesOptions;
  #bytes = 0;

  constructor(options: DiskBulkFilesOptions) {
    this.#options = options;
    for (const found of readdirSync(options.folder)) {
      const path = join(options.folder, found);
      if (found.endsWith(drafts)) rmSync(path, { force: true });
      else if (existsSync(path)) this.#bytes += statSync(path).size;
    }
  }

  async create(name: string, share = 1): Promise<BulkWriter> {
    const path = this.#toPath(name);
    const handle = await open(path + drafts, 'w', 0o600).catch((thrown: unknown) => {
      throw asFull(thrown);
    });
    return new DiskWriter(handle, path, {
      grow: bytes => this.#grow(bytes, share),
      replaced: bytes => {
        this.#bytes -= bytes;
      },
    });
  }

  async link(name: string, second: string): Promise<'linked' | 'not_found'> {
    const path = this.#toPath(second);
    try {
      await rm(path, { force: true });
      await link(this.#toPath(name), path);
    } catch (thrown) {
      if (isMissing(thrown)) return 'not_found';
      throw asFull(thrown);
    }
    await syncFolder(this.#options.folder);
    return 'linked';
  }

  async open(name: string): Promise<BulkReader | undefined> {
    const handle = await openIfThere(this.#toPath(name));
    if (handle === undefined) return undefined;
    const { size } = await handle.stat();
    return {
      size,
      async read() {
        const { buffer, bytesRead } = await handle.read({ buffer: Buffer.allocUnsafe(readBytes) });
        return buffer.subarray(0, bytesRead);
      },
      close: () => handle.close(),
    };
  }

  async openJournal(name: string): Promise<Journal> {
    const onGrown = (bytes: number): void => {
      this.#bytes += bytes;
    };
    const journal = await openJournal(this.#toPath(name), { onGrown, asFailure: asFull });
    await syncFolder(this.#options.folder);
    return journal;
  }

  async delete(name: string): Promise<void> {
    const path = this.#toPath(name);
    const size = await readSize(path);
    await rm(path, { force: true });
    this.#bytes -= size;
  }

  async list(): Promise<string[]> {
    return (await readdir(this.#options.folder)).filter(name => !name.endsWith(drafts));
  }

  #toPath(name: string): string {
    if (!namePattern.test(name)) throw new Error(`not a valid file name: ${name}`);
    return join(this.#options.folder, name);
  }

  #grow(bytes: number, share: number): void {
    if (bytes > 0 && this.#bytes + bytes > this.#options.bytesMax() * share) throw full();
    this.#bytes += bytes;
  }
}

interface WriterWatch {
  /** Called before the file grows, and with a negative number when it is discarded. Throws if there is no room. */
  readonly grow: (bytes: number) => void;
  /** Called with the size of the file that this one replaces. */
  readonly replaced: (bytes: number) => void;
}

class DiskWriter implements BulkWriter {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #watch: WriterWatch;
  #isOver = false;
  size = 0;

  constructor(handle: FileHandle, path: string, watch: WriterWatch) {
    this.#handle = handle;
    this.#path = path;
    this.#watch = watch;
  }

  async append(bytes: Uint8Array): Promise<void> {
    this.#watch.grow(bytes.length);
    this.size += bytes.length;
    try {
      await this.#handle.writeFile(bytes);
    } catch (thrown) {
      throw asFull(thrown);
    }
  }

  async finish(): Promise<void> {
    try {
      await this.#handle.sync();
      const before = await readSize(this.#path);
      await rename(this.#path + drafts, this.#path);
      this.#watch.replaced(before);
      await syncFolder(join(this.#path, '..'));
    } catch (thrown) {
      throw asFull(thrown);
    }
    this.#isOver = true;
    await this.#handle.close();
  }

  async discard(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#watch.grow(-this.size);
    await this.#handle.close().catch(() => undefined);
    await rm(this.#path + drafts, { force: true }).catch(() => undefined);
  }
}

async function readSize(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (thrown) {
    if (isMissing(thrown)) return 0;
    throw thrown;
  }
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (thrown) {
    if (isMissing(thrown)) return undefined;
    throw thrown;
  }
}

/** Syncs a folder, so that new names in it survive a power cut. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function readCode(thrown: unknown): unknown {
  return thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
}

function isMissing(thrown: unknown): boolean {
  return readCode(thrown) === 'ENOENT';
}

function asFull(thrown: unknown): Error {
  const code = readCode(thrown);
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EIO') return full(thrown);
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function full(cause?: unknown): GatewayError {
  return new GatewayError('overloaded', 'The gateway has no room for more files now.', {
    tip: 'Delete files that you do not need any more (DELETE /v1/files/{id}), or ask the operator to raise `batches.disk_bytes`.',
    retryAfterMs: 60_000,
    ...(cause === undefined ? {} : { cause }),
  });
}
