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

/** A secret that lives in a file which only its owner can read. */

/**
 * Returns the text of a secret file without surrounding white space; undefined if there is no such file. Throws what
 * the file system throws.
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
 * Returns the text of a secret file, made by `make` if missing, mode 0600. The file appears whole or not at all, and
 * if two processes make it at once both get the same text. Throws if it exists but is empty.
 */
export function keepSecretFile(path: string, make: () => string): string {
  const kept = readSecretFile(path) ?? createSecretFile(path, make());
  if (kept === '') throw new Error(`${path} is empty: delete it, and a new one is made.`);
  if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
  return kept;
}

/** Writes or replaces a secret file, mode 0600; it appears whole or not at all. Throws the file system's error. */
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
