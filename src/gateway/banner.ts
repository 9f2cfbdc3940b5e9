import type { FoundProvider } from './found-providers.ts';
import type { Gateway } from './gateway.ts';

/** The facts that the banner shows to the operator when the gateway is ready. */
export interface BannerFacts extends Pick<Gateway, 'publicUrl' | 'rpcUrl' | 'firstKeys' | 'dashboard'> {
  readonly dataDir: string;
  /** The providers that environment variables have enabled. */
  readonly providers: readonly FoundProvider[];
  /** The listed id of a model to try; undefined if the catalogue is empty. */
  readonly model: string | undefined;
}

/**
 * Returns the banner of a ready gateway: addresses, on the first start also the generated keys, and a command to try, which works if it is pasted. On the first start the command calls a model with the new key; later, because no key is known, it checks that the gateway answers.
 */
export function banner(facts: BannerFacts): string {
  const { publicUrl, rpcUrl, firstKeys, dashboard, dataDir, providers, model } = facts;
  const lines = [
    'Tollgate is ready.',
    `  public          ${publicUrl}`,
    `  internal        ${rpcUrl}  (gRPC, gRPC-Web, Connect)`,
    `  data            ${dataDir}`,
    `  dashboard       ${dashboard.url}  (${dashboard.isLink ? 'signs in once, within an hour' : 'to sign in: npx tollgate dashboard'})`,
  ];
  if (providers.length > 0) lines.push('', 'Providers found:', ...providerLines(providers));
  if (firstKeys !== undefined) lines.push(...keyLines(firstKeys));
  lines.push('', 'Try it:', ...tryLines(publicUrl, firstKeys, model));
  return `${lines.join('\n')}\n`;
}

/** How many models of a provider are listed; of the others, the number is shown. */
const modelsShown = 4;

function providerLines(providers: readonly FoundProvider[]): string[] {
  const width = Math.max(...providers.map(({ name }) => name.length), 14);
  return providers.map(({ name, models, state }) => {
    const more = models.length > modelsShown ? `, and ${models.length - modelsShown} more` : '';
    const had = models.slice(0, modelsShown).join(', ') + more;
    return `  ${name.padEnd(width)}  ${had === '' ? missing[state] : had}`;
  });
}

/** Why a provider has no models. */
const missing: Readonly<Record<FoundProvider['state'], string>> = {
  known: 'no models: name them in the configuration file',
  listed: 'lists no usable model; it is queried again every minute',
  failed: 'does not answer yet; it is queried again until it does',
  unauthorized: 'refuses its key; set the right one in the environment',
};

function keyLines({ apiKey, managementKey, file }: NonNullable<BannerFacts['firstKeys']>): string[] {
  if (file !== undefined) return ['', `Keys of account 1 are in ${file.path}.`];
  const lines = [
    ...(apiKey === undefined ? [] : [`  API key         ${apiKey}`]),
    ...(managementKey === undefined ? [] : [`  management key  ${managementKey}`]),
  ];
  return lines.length === 0 ? [] : ['', 'Keys of account 1, shown only now:', ...lines];
}

function tryLines(publicUrl: string, firstKeys: BannerFacts['firstKeys'], model: string | undefined): string[] {
  if (firstKeys === undefined || model === undefined) return [`curl ${publicUrl}/readyz`];
  // A key that was set in the environment is not shown, because it is known and need not be in a log.
  const { file } = firstKeys;
  const key =
    firstKeys.apiKey ??
    (file?.hasApiKey === true
      ? `$(sed -n 's/^TOLLGATE_API_KEY=//p' ${shellWord(file.path)})`
      : '$TOLLGATE_BOOTSTRAP_API_KEY');
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Say hello.' }] });
  return [
    `curl ${publicUrl}/v1/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d '${body}'`,
  ];
}

function shellWord(text: string): string {
  return /^[\w./~-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
