import type { Claims } from '../claims.ts';
import { isAlive, query, type StoreDatabase } from './database.ts';

/** Takes a claim that is free or whose instance has ended. */
const takeText = `INSERT INTO claim (name, mark, boot) VALUES ($1::text, $2::text, $3::bigint)
  ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, boot = excluded.boot WHERE NOT ${isAlive('claim.boot')} RETURNING name`;
const findText = `SELECT mark FROM claim WHERE name = $1::text AND ${isAlive('claim.boot')}`;
const listText = `SELECT name FROM claim WHERE starts_with(name, $1::text) AND ${isAlive('claim.boot')}`;
const releaseText = 'DELETE FROM claim WHERE name = $1::text AND boot = $2::bigint';
const takeTriesMax = 5;

/** Opens the claims that all gateways of a database share. */
export function openPostgresClaims(database: StoreDatabase): Claims {
  return {
    async take(name, mark) {
      for (let tries = 0; tries < takeTriesMax; tries += 1) {
        const [taken] = await query(database, takeText, [name, mark, database.boot()]);
        if (taken !== undefined) return undefined;
        const [other] = await query(database, findText, [name]);
        // Without a row, the claim was released in between: try again.
        if (other !== undefined) return String(other['mark']);
      }
      throw new Error(`the claim ${name} was taken and released by others again and again`);
    },
    async find(name) {
      const [found] = await query(database, findText, [name]);
      return found && String(found['mark']);
    },
    async list(prefix) {
      const found = await query(database, listText, [prefix]);
      return found.map(row => String(row['name']));
    },
    release(name) {
      // If the database can't store the release now, the claim ends with the instance.
      query(database, releaseText, [name, database.boot()]).catch(() => undefined);
    },
  };
}
