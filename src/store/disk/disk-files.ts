import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileExtension, type ImageType, parseExtension } from '../../generation/images/image-type.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Files, noRoomForImages, type OpenFile } from '../files.ts';

interface DiskFilesOptions {
  /** The folder of the files; it is created for the first one. Nothing else may be in it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a file is kept. */
  readonly lifetimeMs: number;
  /** The most bytes that all files together may have; a file beyond it is refused. */
  readonly bytesMax: number;
  /** Called for a file that can't be removed; removal is retried. */
  readonly onFailure: (error: unknown) => void;
}

/** A stored file. */
interface Kept {
  readonly path: string;
  readonly type: ImageType;
  readonly size: number;
  readonly expiresAtMs: number;
}

const tokenBytes = 16;
const readBytes = 262_144;
/** How long an expired file may stay on the disk. It can't be opened any more once it has expired. */
const sweepMs = 10_000;
/** Token, expiry in ms, extension. The name contains the expiry, because the times of a file system are not those of the gateway's clock. */
const namePattern = /^([0-9a-f]{32})\.(\d{1,16})\.([a-z]+)$/;
const drafts = '.draft';

/** Opens the files of a folder. Removes expired files, and unfinished ones that a crash has left. */
export function openDiskFiles(options: DiskFilesOptions): Files {
  return new DiskFiles(options);
}

class DiskFiles implements Files {
  readonly #options: DiskFilesOptions;
  /** By public name. */
  readonly #files = new Map<string, Kept>();
  readonly #timer: NodeJS.Timeout;
  #bytes = 0;

  constructor(options: DiskFilesOptions) {
    this.#options = options;
    if (existsSync(options.folder)) for (const found of readdirSync(options.folder)) this.#addExisting(found);
    this.#timer = setInterval(() => void this.sweep(), sweepMs);
    this.#timer.unref();
  }

  async put(bytes: Uint8Array, type: ImageType): Promise<string> {
    const { folder, clock, lifetimeMs, bytesMax } = this.#options;
    if (this.#bytes + bytes.length > bytesMax) throw noRoomForImages();
    this.#bytes += bytes.length;
    const token = randomBytes(tokenBytes).toString('hex');
    const expiresAtMs = clock.now() + lifetimeMs;
    const path = join(folder, `${token}.${expiresAtMs}.${fileExtension(type)}`);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await writeDurably(path, bytes);
    } catch (error) {
      this.#bytes -= bytes.length;
      // Also removes the complete file, because it may not survive a power cut. What can't be removed now is removed at the next start, or when
      // it expires.
      for (const left of [path + drafts, path]) await rm(left, { force: true }).catch(() => undefined);
      throw isFull(error) ? noRoomForImages(error) : error;
    }
    const name = `${token}.${fileExtension(type)}`;
    this.#files.set(name, { path, type, size: bytes.length, expiresAtMs });
    return name;
  }

  async open(name: string): Promise<OpenFile | undefined> {
    const kept = this.#files.get(name);
    if (kept === undefined) return undefined;
    if (this.#hasEnded(kept)) {
      await this.delete(name);
      return undefined;
    }
    const { path, type, size, expiresAtMs } = kept;
    const handle = await openIfThere(path);
    if (handle === undefined) return undefined;
    return {
      type,
      size,
      etag: name.slice(0, name.indexOf('.')),
      expiresAtMs,
      async read() {
        const { buffer, bytesRead } = await handle.read({ buffer: Buffer.allocUnsafe(readBytes) });
        return buffer.subarray(0, bytesRead);
      },
      close: () => handle.close(),
    };
  }

  async delete(name: string): Promise<void> {
    const kept = this.#files.get(name);
    if (kept === undefined) return;
    this.#files.delete(name);
    this.#bytes -= kept.size;
    try {
      await rm(kept.path, { force: true });
    } catch (error) {
      this.#files.set(name, kept);
      this.#bytes += kept.size;
      this.#options.onFailure(error);
    }
  }

  async sweep(): Promise<number> {
    const ended = [...this.#files].filter(([, kept]) => this.#hasEnded(kept));
    for (const [name] of ended) await this.delete(name);
    return ended.length;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.sweep();
  }

  /** Adds a file of an earlier process, or removes it if it has expired or is unfinished. Ignores files with other names, which are not the gateway's. */
  #addExisting(found: string): void {
    const path = join(this.#options.folder, found);
    const isDraft = found.endsWith(drafts);
    const [, token, expires, extension] = namePattern.exec(isDraft ? found.slice(0, -drafts.length) : found) ?? [];
    const type = parseExtension(extension ?? '');
    if (token === undefined || type === undefined) return;
    const kept = { path, type, size: statSync(path).size, expiresAtMs: Number(expires) };
    if (isDraft || this.#hasEnded(kept)) {
      rmSync(path, { force: true });
      return;
    }
    this.#bytes += kept.size;
    this.#files.set(`${token}.${fileExtension(type)}`, kept);
  }

  #hasEnded({ expiresAtMs }: Kept): boolean {
    return this.#options.clock.now() >= expiresAtMs;
  }
}

/** Opens a file. Returns undefined if it was removed in the meantime. */
async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes a file, wholly or not at all, so that it survives a power cut. */
async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const draft = path + drafts;
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, path);
  const folder = await open(join(path, '..'), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}
