import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { keepSecretFile } from '../lib/secret-file.ts';

/**
 * Returns the operator token of a data directory: random, made at the first start and kept after, in `operator.token`, mode 0600. Throws if the
 * file can't be read or made. Source: decisions §1.
 */
export function operatorToken(dataDir: string): string {
  return keepToken(dataDir, 'operator.token', 'op-tg-');
}

/** Returns the token in `edge.token` that an edge in another process proves itself with; kept as the operator token is. */
export function edgeToken(dataDir: string): string {
  return keepToken(dataDir, 'edge.token', 'ed-tg-');
}

/**
 * The server secrets of a data directory, newest first: lines of `server.secret`, mode 0600. The first one is made at the first start. To
 * rotate, put a new line before the others: it seals from the next start on, and the others still open. Throws where the file can't be read or made.
 */
export function serverSecrets(dataDir: string): string[] {
  return keepSecretFile(join(dataDir, 'server.secret'), () => randomBase62(43)).split(/\s+/);
}

/** `prefix`: what its text begins with, so that nobody takes it for a key. */
function keepToken(dataDir: string, name: string, prefix: string): string {
  return keepSecretFile(join(dataDir, name), () => prefix + randomBase62(43));
}
