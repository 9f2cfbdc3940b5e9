import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { acquireNodeLock } from '../sqlite/node-lock.ts';
import { makeDirectory } from '../../lib/make-directory.ts';

/** A data directory that this process alone serves. */
export interface HomeLock {
  /** A name of the directory: every process that serves it has the same one, and no process elsewhere. */
  readonly name: string;
  readonly release: () => void;
}

/**
 * Reserves a data directory, so that a gateway knows that the one that served it before is gone. Returns undefined if another process serves it, or it
 * can't be written: gateways on a database run without it.
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
    // The first start on this directory.
  }
  const name = randomUUID();
  writeFileSync(path, `${name}\n`, { mode: 0o600 });
  return name;
}
