import { randomBytes } from 'node:crypto';
import { fileExtension, parseExtension } from '../../generation/images/image-type.ts';
import type { Files } from '../files.ts';
import { nowMs, query, type StoreDatabase, toBytes } from './database.ts';

const tokenBytes = 16;
const sweepMs = 10_000;
const readBytes = 262_144;

/**
 * Opens the images that all gateways of a database share. `lifetimeMs`: how long each is kept. Their table keeps its first name, `picture`: a
 * migration that renamed it would break the gateways that are upgraded last.
 */
export function openPostgresFiles(database: StoreDatabase, lifetimeMs: number): Files {
  const sweep = async (): Promise<number> =>
    (await query(database, `DELETE FROM picture WHERE expires_at_ms <= ${nowMs} RETURNING name`)).length;
  // A failed removal is repeated by the next run.
  const timer = setInterval(() => void sweep().catch(() => undefined), sweepMs).unref();
  return {
    async put(bytes, type) {
      const name = `${randomBytes(tokenBytes).toString('hex')}.${fileExtension(type)}`;
      const text = `INSERT INTO picture VALUES ($1::text, $2::bytea, ${nowMs} + $3::bigint)`;
      await query(database, text, [name, bytes, lifetimeMs]);
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
