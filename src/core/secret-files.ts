import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { readOrCreateSecretFile } from '../lib/secret-file.ts';

/**
 * Returns the operator tokens of a data directory: the lines of `operator.token`. If the file does not exist, it is created with a random token and mode 0600. The command line uses the token in the first line. To rotate tokens, add a new first line, reload, and remove the old line when it is no longer used. Throws if the file can't be read or created. Source: docs/security.md "The internal listener".
 */
export function operatorTokens(dataDir: string): string[] {
  return readOrCreateTokens(dataDir, 'operator.token', 'op-tg-');
}

/** Returns the tokens that authenticate an edge in another process: the lines of `edge.token`, which is created like `operator.token`. */
export function edgeTokens(dataDir: string): string[] {
  return readOrCreateTokens(dataDir, 'edge.token', 'ed-tg-');
}

/**
 * Returns the server secrets of a data directory, newest first: the lines of `server.secret`. If the file does not exist, it is created with a random secret and mode 0600. To rotate secrets, add a new first line: after the next start, new values are encrypted with it, and old values can still be decrypted with the other lines. Throws if the file can't be read or created.
 */
export function serverSecrets(dataDir: string): string[] {
  return readOrCreateSecretFile(join(dataDir, 'server.secret'), () => randomBase62(43)).split(/\s+/);
}

/** Returns the tokens in a file, which is created with one token if it does not exist. `prefix`: the beginning of the created token, so that it is not mistaken for a key. */
function readOrCreateTokens(dataDir: string, name: string, prefix: string): string[] {
  return readOrCreateSecretFile(join(dataDir, name), () => prefix + randomBase62(43)).split(/\s+/);
}
