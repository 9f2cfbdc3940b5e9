import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../../lib/make-directory.ts';

/** The length of a file, and the SHA-256 of its content in hexadecimal digits. */
export interface FileSum {
  readonly bytes: number;
  readonly sha256: string;
}

/** Returns the sum of a file. Throws the file system's error. */
export async function sumFile(path: string): Promise<FileSum> {
  return sumWhile(path, () => Promise.resolve());
}

/**
 * Copies a file to a new one, mode 0600, and returns the checksum of the written bytes; they are on the disk when this resolves. Throws the
 * file system's error.
 */
export async function copyFile(source: string, target: string): Promise<FileSum> {
  makeDirectory(dirname(target));
  // Opened before the target is made, so that a missing source leaves nothing behind.
  const from = await open(source, 'r');
  try {
    const to = await open(target, 'wx', 0o600);
    try {
      const sum = await sumWhile(from, chunk => to.writeFile(chunk));
      await to.sync();
      return sum;
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/** Makes the names of the files in these folders, and so the files, survive a power cut. */
export async function syncFolders(root: string, paths: readonly string[]): Promise<void> {
  for (const folder of new Set([root, ...paths.map(path => dirname(join(root, path)))])) {
    const handle = await open(folder, 'r');
    await handle.sync();
    await handle.close();
  }
}

async function sumWhile(source: string | FileHandle, take: (chunk: Buffer) => Promise<void>): Promise<FileSum> {
  const hash = createHash('sha256');
  let bytes = 0;
  const chunks =
    typeof source === 'string' ? createReadStream(source) : source.createReadStream({ autoClose: false, start: 0 });
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
    await take(chunk);
  }
  return { bytes, sha256: hash.digest('hex') };
}
