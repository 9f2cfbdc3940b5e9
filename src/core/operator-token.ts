import { join } from 'node:path';
import { randomBase62 } from '../lib/ids.ts';
import { keepSecretFile } from '../lib/secret-file.ts';

/** What the operator token's text begins with, so that nobody takes it for a key. */
const prefix = 'op-tg-';

/**
 * The operator token of a data directory: random, made at the first start and kept after, in `operator.token`, mode 0600. Throws where the
 * file can't be read or made. Source: decisions §1.
 */
export function operatorToken(dataDir: string): string {
  return keepSecretFile(join(dataDir, 'operator.token'), () => prefix + randomBase62(43));
}
