import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { keepSecretFile } from '../lib/secret-file.ts';

/**
 * Returns the operator tokens of a data directory: lines of `operator.token`, mode 0600. The first one is random and
 * made at the first start; the command line uses the first. To rotate, put a new line before the others, reload, and
 * remove the old line once it is no longer used. Throws if the file can't be read or made. Source: docs/security.md
 * "The internal listener".
 */
export function operatorTokens(dataDir: string): string[] {
  return keepTokens(dataDir, 'operator.token', 'op-tg-');
}

/** Returns the tokens in `edge.token` that an edge in another process proves itself with; kept as the operator tokens are. */
export function edgeTokens(dataDir: string): string[] {
  return keepTokens(dataDir, 'edge.token', 'ed-tg-');
}

/**
 * Returns the server secrets of a data directory, newest first: lines of `server.secret`, mode 0600. The first one is
 * made at the first start. To rotate, put a new line before the others: it seals from the next start on, and the
 * others still open. Throws if the file can't be read or made.
 */
export function serverSecrets(dataDir: string): string[] {
  return keepSecretFile(join(dataDir, 'server.secret'), () => randomBase62(43)).split(/\s+/);
}

/** `prefix`: starts every token, so that none is mistaken for a key. */
function keepTokens(dataDir: string, name: string, prefix: string): string[] {
  return keepSecretFile(join(dataDir, name), () => prefix + randomBase62(43)).split(/\s+/);
}
