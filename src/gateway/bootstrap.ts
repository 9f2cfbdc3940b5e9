import { ConfigError } from '../config/config-error.ts';
import type { Environment } from '../config/env.ts';
import { allScopes } from '../core/credential.ts';
import { keyMaterial, makeKey } from '../core/keys.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { writeSecretFile } from '../lib/secret-file.ts';

/** The keys that the first start generated. A key is absent if the environment has set it, or if the keys were written to a file. */
export interface FirstKeys {
  /** The file that the keys were written to, and whether it has the API key. */
  readonly file?: { readonly path: string; readonly hasApiKey: boolean };
  readonly apiKey?: string;
  readonly managementKey?: string;
}

/**
 * Creates account 1 on the first start. Returns the generated keys; undefined on later starts. Throws `ConfigError` if the file for the keys can't be written; then nothing was created.
 */
export async function bootstrap(ledger: Ledger, { bootstrap: given }: Environment): Promise<FirstKeys | undefined> {
  const apiKey = given.apiKey === undefined ? makeKey('apiKey') : keyMaterial(given.apiKey.reveal());
  const managementKey =
    given.managementKey === undefined ? makeKey('managementKey') : keyMaterial(given.managementKey.reveal());
  const made = {
    ...(given.apiKey === undefined ? { apiKey: apiKey.text } : {}),
    ...(given.managementKey === undefined ? { managementKey: managementKey.text } : {}),
  };
  const file = Object.keys(made).length === 0 ? undefined : given.file;
  // Written before the ledger stores them, because keys whose file can't be written would be lost.
  if (file !== undefined && (await ledger.listAccounts()).length === 0) writeKeys(file, made);
  const isFirst = await ledger.bootstrap({
    accountName: 'default',
    balance: given.balanceNanoUsd,
    apiKey,
    managementKey: { ...managementKey, scopes: allScopes },
  });
  if (!isFirst) return undefined;
  return file === undefined ? made : { file: { path: file, hasApiKey: made.apiKey !== undefined } };
}

/** Writes the keys as lines that a shell can read. */
function writeKeys(file: string, { apiKey, managementKey }: FirstKeys): void {
  const lines = [
    ...(apiKey === undefined ? [] : [`TOLLGATE_API_KEY=${apiKey}`]),
    ...(managementKey === undefined ? [] : [`TOLLGATE_MANAGEMENT_KEY=${managementKey}`]),
  ];
  try {
    writeSecretFile(file, lines.join('\n'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError([
      { path: 'TOLLGATE_BOOTSTRAP_FILE', message: `names a file that can't be written: ${reason}` },
    ]);
  }
}
