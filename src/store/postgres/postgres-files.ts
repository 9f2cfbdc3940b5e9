import { randomBytes } from 'node:crypto';
import { fileExtension, parseExtension } from '../../generation/images/image-type.ts';
import { type Files, noRoomForImages } from '../files.ts';
import { nowMs, query, type StoreDatabase, toBytes } from './database.ts';

const tokenBytes = 16;
const sweepMs = 10_000;
const readBytes = 262_144;

/** Stores an image if there is room. The length of stored bytes is read without the bytes. Images that are stored at the same moment don't count each other. */
const putText = `INSERT INTO picture (name, content, expires_at_ms) SELECT $1::text, $2::bytea, ${nowMs} + $3::bigint
  WHERE (SELECT coalesce(sum(octet_length(content)), 0) FROM picture) + octet_length($2::bytea) <= $4::bigint RETURNING name`;

/** How images are stored. */
export interface PostgresFilesOptions {
  /** How long each is kept. */
  readonly lifetimeMs: number;
  /** The most that all of them may take together. */
  readonly bytesMax: number;
}

/**
 * Opens the images that all gateways of a database share. The table is still called `picture`, because renaming it would break gateways that
 * have not been upgraded yet.
 */
export function openPostgresFiles(database: StoreDatabase, { lifetimeMs, bytesMax }: PostgresFilesOptions): Files {
  const sweep = async (): Promise<number> =>
    (await query(database, `DELETE FROM picture WHERE expires_at_ms <= ${nowMs} RETURNING name`)).length;
  // If a removal fails, the next run repeats it.
  const timer = setInterval(() => void sweep().catch(() => undefined), sweepMs).unref();
  return {
    async put(bytes, type) {
      const name = `${randomBytes(tokenBytes).toString('hex')}.${fileExtension(type)}`;
      const stored = await query(database, putText, [name, bytes, lifetimeMs, bytesMax]);
      if (stored.length === 0) throw noRoomForImages();
      return name;
    },
    async open(name) {
      const text = `SELECT content, expires_at_ms FROM picture WHERE name = $1::text AND expires_at_ms > ${nowMs}`;
      const [row] = await query(database, text, [name]);
      const type = parseExtension(name.slice(name.indexOf('.') + 1));
      if (row === undefined || type === undefined) return undefined;
      const content = toBytes(row['content']);
      let at = 0;
      return {
        type,
        size: content.length,
        etag: name.slice(0, name.indexOf('.')),
        expiresAtMs: Number(row['expires_at_ms']),
        read: async () => content.subarray(at, (at += readBytes)),
        close: async () => undefined,
      };
    },
    async delete(name) {
      await query(database, 'DELETE FROM picture WHERE name = $1::text', [name]);
    },
    sweep,
    async close() {
      clearInterval(timer);
    },
  };
}
