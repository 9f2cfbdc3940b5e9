import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { keepSecretFile } from '../lib/secret-file.ts';

/**
 * The server secrets of a data directory, newest first: lines of `server.secret`, mode 0600. The first one is made at the first start. To
 * rotate, put a new line before the others: it seals from the next start on, and the others still open. Throws where the file can't be read or made.
 */
export function serverSecrets(dataDir: string): string[] {
  return keepSecretFile(join(dataDir, 'server.secret'), () => randomBase62(43)).split(/\s+/);
}
