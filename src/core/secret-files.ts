import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { keepSecretFile } from '../lib/secret-file.ts';

/**
 * Returns the operator tokens of a data directory: the lines of `operator.token`, mode 0600. If there is no file, one is made, with a random
 * token. The command line uses the token in the first line. To rotate, put a new line before the others, reload, and remove the old line
 * once it is no longer used. Throws if the file can't be read or made. Source: docs/security.md "The internal listener".
 */
export function operatorTokens(dataDir: string): string[] {
  return keepTokens(dataDir, 'operator.token', 'op-tg-');
}

/** Returns the tokens that authenticate an edge in another process: the lines of `edge.token`, made like the operator tokens. */
export function edgeTokens(dataDir: string): string[] {
  return keepTokens(dataDir, 'edge.token', 'ed-tg-');
}

/**
 * Returns the server secrets of a data directory, newest first: the lines of `server.secret`, mode 0600. If there is no file, one is made,
 * with a random secret. To rotate, put a new line before the others: from the next start on, the new secret seals values, and the others
 * still open theirs. Throws if the file can't be read or made.
 */
export function serverSecrets(dataDir: string): string[] {
  return keepSecretFile(join(dataDir, 'server.secret'), () => randomBase62(43)).split(/\s+/);
}

/** Returns the tokens in a file. `prefix`: begins a token that is made here, so that it is not mistaken for a key. */
function keepTokens(dataDir: string, name: string, prefix: string): string[] {
  return keepSecretFile(join(dataDir, name), () => prefix + randomBase62(43)).split(/\s+/);
}
