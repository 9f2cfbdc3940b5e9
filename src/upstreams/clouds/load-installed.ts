import { createRequire } from 'node:module';
import { join } from 'node:path';
import { CredentialError } from '../request-signer.ts';

/**
 * Loads a library of a cloud, when it is needed: it is not in the bundle, and may not be installed. It is looked for beside the gateway, then in the folder in which the gateway was started. Throws `CredentialError` if it is in neither. `Library`: what is used of it.
 */
export function loadInstalled<Library>(name: string): Library {
  for (const place of [import.meta.url, join(process.cwd(), 'package.json')]) {
    const require = createRequire(place);
    try {
      require.resolve(name);
    } catch {
      continue;
    }
    return require(name) as Library;
  }
  throw new CredentialError(
    `the package ${name} is not installed; run \`npm install ${name}\` in the folder in which the gateway is started`,
  );
}
