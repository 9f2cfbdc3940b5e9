import type { ParsedFile } from './schema.ts';
import type { IdentityProviderSettings } from './settings.ts';
import type { YamlPath } from './yaml-source.ts';

/** Returns the settings of the identity provider for signing in; undefined if there is none. */
export function identityProviderSettings({
  identity_provider: parsed,
}: ParsedFile): IdentityProviderSettings | undefined {
  if (parsed === undefined) return undefined;
  const { issuer, client_id: clientId, client_secret: clientSecret, scopes, people } = parsed;
  return {
    issuer,
    clientId,
    clientSecret,
    scopes,
    people: people.map(({ claim, value, role, account }) => ({ claim, value, role, accountId: account ?? null })),
  };
}

/** Reports contradictions in the file's settings of the identity provider. */
export function checkIdentityProvider(
  { identity_provider: parsed }: ParsedFile,
  report: (path: YamlPath, message: string) => void,
): void {
  if (parsed === undefined) return;
  const { protocol, hostname } = new URL(parsed.issuer);
  const isLoopback = ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
  if (protocol !== 'https:' && !isLoopback) {
    report(['identity_provider', 'issuer'], 'must be an https:// address, except for a provider on this machine');
  }
  for (const [index, { role, account }] of parsed.people.entries()) {
    const path = ['identity_provider', 'people', index, 'account'];
    if (role === 'operator' && account !== undefined) report(path, 'must be absent: the operator sees all accounts');
    if (role !== 'operator' && account === undefined)
      report(path, `is missing, must be the id of the ${role}’s account`);
  }
}
