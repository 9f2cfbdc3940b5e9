import { existsSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ledgerPath } from '../../ledger/sqlite/verify.ts';
import { type Connection, openForReading, openForWriting } from '../../lib/sqlite/database.ts';
import { BackupError } from './backup-error.ts';
import { copyFile } from './copy-file.ts';
import { backupsFolder } from './data-files.ts';

/**
 * Rights that were taken away after a backup was made, and that a restore would give back: the data directory that was in use until now knows them. Source: docs/operations.md "Restore".
 */

/** The rights that a restore has ended because they ended after the backup. */
export interface RevokedSince {
  /** The data directory that was asked; undefined: none was found, so that revoked keys work again. */
  readonly asked: string | undefined;
  /** How many API keys and management keys were disabled, because they no longer work in that directory. */
  readonly disabledKeys: number;
  /** How many keys got the secret that they have in that directory, because it was replaced after the backup. */
  readonly rotatedKeys: number;
  /** How many sessions of people were ended: all of them, because a person can sign in again. */
  readonly endedSessions: number;
}

const keyTables = ['api_key', 'management_key'] as const;
const tokenFiles = ['operator.token', 'edge.token'];
const secretFile = 'server.secret';

interface StoredKey {
  readonly id: bigint;
  readonly account_id: bigint;
  readonly hash: Buffer;
  readonly masked: string;
  readonly state: string;
}

/**
 * Returns the data directory that the backup was made from: the one that is named, or the one whose folder `backups` has the backup. Undefined: it is unknown. Throws `BackupError` if the named one is another gateway's.
 */
export function findOldDirectory(source: string, named: string | undefined): string | undefined {
  const folder = dirname(realpathSync(resolve(source)));
  const found = named ?? (basename(folder) === backupsFolder ? dirname(folder) : undefined);
  if (found !== undefined && existsSync(ledgerPath(found)) && isSameGateway(source, found)) return found;
  if (named === undefined) return undefined;
  throw new BackupError(`${named} is not the data directory that ${source} was made from.`);
}

/** Returns whether both have the same secret, with which a gateway seals what it stores. It never changes. */
function isSameGateway(source: string, dataDir: string): boolean {
  const [one, other] = [join(source, secretFile), join(dataDir, secretFile)];
  return existsSync(one) && existsSync(other) && readFileSync(one).equals(readFileSync(other));
}

/**
 * Ends all sessions of a restored ledger, and disables the keys that ended after the backup; `old`: the data directory to ask, whose gateway may run. Copies the tokens of the operator from there, because they may have been replaced.
 */
export async function revokeSince(dataDir: string, old: string | undefined): Promise<RevokedSince> {
  const db = openForWriting(ledgerPath(dataDir));
  try {
    const endedSessions = db.prepare('DELETE FROM session').run().changes;
    if (old === undefined) return { asked: undefined, disabledKeys: 0, rotatedKeys: 0, endedSessions };
    const before = openForReading(ledgerPath(old));
    try {
      const counts = db.transaction(() => updateKeys(db, before))();
      for (const name of tokenFiles) {
        if (!existsSync(join(old, name))) continue;
        rmSync(join(dataDir, name), { force: true });
        await copyFile(join(old, name), join(dataDir, name));
      }
      return { asked: old, ...counts, endedSessions };
    } finally {
      before.close();
    }
  } finally {
    db.close();
  }
}

function updateKeys(restored: Connection, old: Connection): { disabledKeys: number; rotatedKeys: number } {
  let disabledKeys = 0;
  let rotatedKeys = 0;
  for (const table of keyTables) {
    const columns = `SELECT id, account_id, hash, masked, state FROM ${table}`;
    const find = old.prepare<[bigint], StoredKey>(`${columns} WHERE id = ?`);
    const disable = restored.prepare(`UPDATE ${table} SET state = 'disabled' WHERE id = ?`);
    const replace = restored.prepare(`UPDATE ${table} SET hash = ?, masked = ? WHERE id = ?`);
    for (const key of restored.prepare<[], StoredKey>(`${columns} WHERE state <> 'revoked'`).all()) {
      const now = find.get(key.id);
      if (now?.account_id !== key.account_id || now.state === 'revoked' || now.state === 'disabled') {
        if (key.state === 'enabled') disabledKeys += disable.run(key.id).changes;
      } else if (!now.hash.equals(key.hash)) {
        rotatedKeys += replace.run(now.hash, now.masked, key.id).changes;
      }
    }
  }
  copyOldSecrets(restored, old);
  return { disabledKeys, rotatedKeys };
}

/** Makes the replaced secrets that still work those of the old ledger. */
function copyOldSecrets(restored: Connection, old: Connection): void {
  restored.prepare('DELETE FROM old_secret').run();
  const keep = restored.prepare(
    'INSERT INTO old_secret (hash, key_id, ends_at_ms) SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM api_key WHERE id = ?)',
  );
  type OldSecret = { hash: Buffer; key_id: bigint; ends_at_ms: bigint };
  for (const { hash, key_id: id, ends_at_ms: endsAtMs } of old
    .prepare<[], OldSecret>('SELECT * FROM old_secret')
    .all()) {
    keep.run(hash, id, endsAtMs, id);
  }
}
