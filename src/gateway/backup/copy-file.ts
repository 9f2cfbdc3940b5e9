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

/** Returns the length and checksum of a file. Throws the file system's error. */
export async function sumFile(path: string): Promise<FileSum> {
  return sumWhile(path, () => Promise.resolve());
}

/**
 * Copies a file to a new file with mode 0600. Returns the length and checksum of the written bytes, which are on the disk when this resolves. Throws the file system's error.
 */
export async function copyFile(source: string, target: string): Promise<FileSum> {
  makeDirectory(dirname(target));
  // Opened before the target is created, so that no empty target is left if the source is missing.
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

/** Syncs the folders of files, so that the files survive a power cut. */
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
