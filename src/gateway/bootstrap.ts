import type { Environment } from '../config/env.ts';
import { allScopes } from '../core/credential.ts';
import { keyMaterial, makeKey } from '../core/keys.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** The keys that the first start made; each absent where the environment had set it. */
export interface FirstKeys {
  readonly apiKey?: string;
  readonly managementKey?: string;
}

/** Makes account 1 on the first start; the keys it made up, undefined on later starts. */
export async function bootstrap(ledger: Ledger, { bootstrap: given }: Environment): Promise<FirstKeys | undefined> {
  const apiKey = given.apiKey === undefined ? makeKey('apiKey') : keyMaterial(given.apiKey.reveal());
  const managementKey =
    given.managementKey === undefined ? makeKey('managementKey') : keyMaterial(given.managementKey.reveal());
  const isFirst = await ledger.bootstrap({
    accountName: 'default',
    balance: given.balanceNanoUsd,
    apiKey,
    managementKey: { ...managementKey, scopes: allScopes },
  });
  if (!isFirst) return undefined;
  return {
    ...(given.apiKey === undefined ? { apiKey: apiKey.text } : {}),
    ...(given.managementKey === undefined ? { managementKey: managementKey.text } : {}),
  };
}
