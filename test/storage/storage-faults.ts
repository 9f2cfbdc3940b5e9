import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One bit for each kind of system call that can fail; the same as in `storage-faults.c`. */
const calls = { writes: 1, syncs: 2, truncates: 4 } as const;
/** Linux error numbers; 0 shortens a write instead of failing it. */
const errors = { short: 0, EIO: 5, ENOSPC: 28, EROFS: 30 } as const;
const pathOffset = 24;
/** The size of the file that tells the library which calls fail. */
const controlFileBytes = 128;

/** Which calls fail, and how. */
export interface StorageFault {
  readonly calls: readonly (keyof typeof calls)[];
  /** `short`: only half of the bytes are written. */
  readonly error: keyof typeof errors;
  /** Suffix of the paths of the files that fail; absent: every file of a store, those of batches included. */
  readonly path?: string;
  /** How many calls succeed first; absent: none. */
  readonly skip?: number;
  /** How many calls fail; absent: all until `clear`. */
  readonly times?: number;
  /** A failed sync discards the writes since the last sync, as the page cache of the operating system may. */
  readonly loses?: boolean;
}

/** Injects failures into a process's calls on its files. */
export interface StorageFaults {
  /** Environment variables to set for the process. */
  readonly environment: Readonly<Record<string, string>>;
  /** Makes calls fail from now on. */
  arm(fault: StorageFault): void;
  /** Stops making calls fail. */
  clear(): void;
  /** How many calls have failed since the fault was armed. */
  countFired(): number;
  /** Deletes the temporary folder with the library. */
  remove(): void;
}

const compiler = ['cc', 'gcc', 'clang'].find(name => spawnSync(name, ['--version']).status === 0);

/** Whether this machine can inject failures: only Linux with a C compiler can. */
export const canMakeFaults = process.platform === 'linux' && compiler !== undefined;

/** Compiles the library that makes calls fail. */
export function makeStorageFaults(): StorageFaults {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-faults-'));
  const library = join(folder, 'faults.so');
  const source = join(import.meta.dirname, 'storage-faults.c');
  const built = spawnSync(compiler ?? 'cc', ['-shared', '-fPIC', '-O1', '-Wall', '-o', library, source, '-ldl']);
  if (built.status !== 0) throw new Error(String(built.stderr));
  const controlFile = join(folder, 'control');
  writeFileSync(controlFile, Buffer.alloc(controlFileBytes));
  const write = (content: Buffer): void => {
    const file = openSync(controlFile, 'r+');
    writeSync(file, content, 0, content.length, 0);
    fsyncSync(file);
    closeSync(file);
  };
  return {
    environment: { LD_PRELOAD: library, TOLLGATE_TEST_FAULTS: controlFile },
    arm({ calls: failing, error, path = '', skip = 0, times = 0xffff_ffff, loses = false }) {
      write(Buffer.alloc(controlFileBytes));
      const content = Buffer.alloc(controlFileBytes);
      const words = [failing.reduce((sum, call) => sum | calls[call], 0), errors[error], skip, times, Number(loses), 0];
      for (const [index, word] of words.entries()) content.writeUInt32LE(word, index * 4);
      content.write(path, pathOffset);
      write(content);
    },
    clear() {
      const content = readFileSync(controlFile);
      content.writeUInt32LE(0, 12);
      write(content);
    },
    countFired: () => readFileSync(controlFile).readUInt32LE(20),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
