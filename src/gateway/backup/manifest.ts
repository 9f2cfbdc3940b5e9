import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { BackupError } from './backup-error.ts';
import { listFiles } from './data-files.ts';
import { sumFile, syncFolders } from './copy-file.ts';

/** The name of the file that marks a folder as a complete backup. It is written last. */
export const manifestName = 'manifest.json';

const format = 1;

const contentSchema = z.strictObject({
  format: z.int(),
  /** The version of Tollgate that made the backup. */
  tollgate: z.string(),
  /** The time of the backed-up state, in ISO 8601. */
  created_at: z.string(),
  files: z.array(z.strictObject({ path: z.string(), bytes: z.int(), sha256: z.string() })),
});
const manifestSchema = contentSchema.extend({ sha256: z.string() });

/** The contents of a backup. */
export type Manifest = Omit<z.infer<typeof contentSchema>, 'format'>;

/** Writes the manifest of a backup whose files are already on the disk. The manifest appears completely or not at all. */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const content = { format, ...manifest };
  const draft = join(folder, `${manifestName}.draft`);
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ ...content, sha256: sumContent(content) }, undefined, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, join(folder, manifestName));
  await syncFolders(folder, []);
}

/** Compares every file of a backup with its manifest, and returns the manifest. Throws `BackupError` if the backup is incomplete or was changed. */
export async function readCheckedManifest(folder: string): Promise<Manifest> {
  const manifest = readManifest(folder);
  const expected = new Map(manifest.files.map(({ path, ...sum }) => [path, sum]));
  for (const path of listFiles(folder)) {
    if (path === manifestName) continue;
    const sum = expected.get(path);
    expected.delete(path);
    if (sum === undefined) throw changed(folder, `${path} does not belong to it`);
    const found = await sumFile(join(folder, path));
    if (found.bytes !== sum.bytes || found.sha256 !== sum.sha256)
      throw changed(folder, `${path} is not what was written`);
  }
  const [missing] = expected.keys();
  if (missing !== undefined) throw changed(folder, `${missing} is missing`);
  return manifest;
}

function readManifest(folder: string): Manifest {
  let text: string;
  try {
    text = readFileSync(join(folder, manifestName), 'utf8');
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (!isMissing) throw error;
    throw new BackupError(
      `${folder} is not a complete backup: it has no ${manifestName}, which is written last. Use another backup.`,
      error,
    );
  }
  const parsed = manifestSchema.safeParse(parseJson(text));
  if (!parsed.success) throw changed(folder, `${manifestName} is not what was written`);
  const { sha256, ...content } = parsed.data;
  if (content.format !== format) {
    throw new BackupError(
      `${folder} was made by Tollgate ${content.tollgate}, in a format that this one does not know. Restore it with that version.`,
    );
  }
  if (sha256 !== sumContent(content)) throw changed(folder, `${manifestName} is not what was written`);
  return { tollgate: content.tollgate, created_at: content.created_at, files: content.files };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sumContent({ format: number, tollgate, created_at, files }: z.infer<typeof contentSchema>): string {
  const rows = files.map(({ path, bytes, sha256 }) => [path, bytes, sha256]);
  return createHash('sha256')
    .update(JSON.stringify([number, tollgate, created_at, rows]))
    .digest('hex');
}

function changed(folder: string, what: string): BackupError {
  return new BackupError(`${folder} was changed after the backup: ${what}. Use another backup.`);
}
