import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { makeDirectory } from './make-directory.ts';

/** Secrets in files that only their owner can read. */

/**
 * Returns the text of a secret file without white space around it; undefined if the file does not exist. Throws the
 * file system's error.
 */
export function readSecretFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Returns the text of a secret file. If the file does not exist, creates it (mode 0600, wholly or not at all) with a text
 * from `make`; if two processes create it at the same time, both get the same text. Throws if the file is empty.
 */
export function readOrCreateSecretFile(path: string, make: () => string): string {
  const kept = readSecretFile(path) ?? createSecretFile(path, make());
  if (kept === '') throw new Error(`${path} is empty: delete it, and a new one is made.`);
  if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
  return kept;
}

/** Writes or replaces a secret file (mode 0600), wholly or not at all. Throws the file system's error. */
export function writeSecretFile(path: string, text: string): void {
  const draft = writeDraft(path, text);
  try {
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft);
    throw error;
  }
}

function writeDraft(path: string, text: string): string {
  makeDirectory(dirname(path));
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  const file = openSync(draft, 'wx', 0o600);
  try {
    writeSync(file, `${text}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return draft;
}

function createSecretFile(path: string, text: string): string {
  const draft = writeDraft(path, text);
  try {
    linkSync(draft, path);
    return text;
  } catch (error) {
    const winner = readSecretFile(path);
    if (winner === undefined) throw error;
    return winner;
  } finally {
    rmSync(draft);
  }
}
