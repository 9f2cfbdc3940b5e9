import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Reads, changes and restores settings files of other programs. A file is copied before it is changed. */

const before = '.before-tollgate';
/** The extension of an empty file which says that the settings file did not exist. */
const absent = '.not-before-tollgate';
const after = '.after-tollgate';
/** The mode of the files, because they contain a key. */
const ownerOnly = 0o600;

/** Returns a file's text; undefined if there is none. */
export function readSettings(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

/**
 * Writes a file after copying its old content. If there is a copy already, it stays, because it has the original settings. Returns the
 * path of the copy; undefined if there was no file.
 */
export function writeSettings(path: string, text: string): string | undefined {
  mkdirSync(dirname(path), { recursive: true });
  const was = readSettings(path);
  const isFirst = !existsSync(path + before) && !existsSync(path + absent);
  if (isFirst) writeFileSync(was === undefined ? path + absent : path + before, was ?? '', { mode: ownerOnly });
  const next = `${path}.tollgate-new`;
  writeFileSync(next, text, { mode: ownerOnly });
  chmodSync(next, ownerOnly);
  renameSync(next, path);
  return existsSync(path + before) ? path + before : undefined;
}

/**
 * Restores the file as it was before `writeSettings`; the current content is copied too. Returns whether there was anything to restore.
 */
export function restoreSettings(path: string): boolean {
  const had = existsSync(path + before);
  if (!had && !existsSync(path + absent)) return false;
  if (existsSync(path)) renameSync(path, path + after);
  if (had) renameSync(path + before, path);
  else rmSync(path + absent);
  return true;
}
