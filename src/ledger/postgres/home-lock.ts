import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { acquireNodeLock } from '../sqlite/node-lock.ts';
import { makeDirectory } from '../../lib/make-directory.ts';

/** A data directory that this process has locked. */
export interface HomeLock {
  /** A name for the directory, which is the same in every process that locks it and different from that of any other directory. */
  readonly name: string;
  readonly release: () => void;
}

/**
 * Locks a data directory, so that the gateway knows that the one that used it before has ended. Returns undefined if another process has locked it or it
 * can't be written; a gateway on PostgreSQL can run without the lock.
 */
export function lockHome(dataDir: string): HomeLock | undefined {
  try {
    makeDirectory(dataDir);
    const lock = acquireNodeLock(dataDir);
    try {
      return { name: readName(join(dataDir, 'instance.id')), release: () => lock.release() };
    } catch (error) {
      lock.release();
      throw error;
    }
  } catch {
    return undefined;
  }
}

function readName(path: string): string {
  try {
    const name = readFileSync(path, 'utf8').trim();
    if (name !== '') return name;
  } catch {
    // The file does not exist before the first start on this directory.
  }
  const name = randomUUID();
  writeFileSync(path, `${name}\n`, { mode: 0o600 });
  return name;
}
