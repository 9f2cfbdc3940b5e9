import { cloudKeys, cloudNames, type CloudSettings } from './clouds.ts';
import { completeCloud, findCloud, isCloudOn } from './complete-cloud.ts';
import { protocolNames } from './model-kind.ts';
import { defined } from '../lib/defined.ts';
import { addressOf, type PresetSettings, readPresets, type TextProtocol } from './presets.ts';
import type { Variables } from './env.ts';
import type { ParsedFile, ParsedProvider } from './schema.ts';
import type { ProtocolName, SpokenProtocol } from './settings.ts';
import type { YamlPath } from './yaml-source.ts';

/** A provider with everything that the file leaves to its preset. */
export interface CompleteProvider extends Omit<ParsedProvider, 'protocol' | 'protocols' | 'base_url'> {
  /** The preset whose models it has; absent: it has only those of the file. */
  readonly preset?: string;
  readonly protocol: ProtocolName;
  readonly base_url: string;
  readonly cloudSettings?: CloudSettings;
  readonly rerankUrl?: string;
  /** The other protocols, in order of preference. */
  readonly others: readonly SpokenProtocol[];
}

/** A file whose providers are complete, and include those that environment variables enable. */
export interface CompleteFile extends Omit<ParsedFile, 'providers'> {
  readonly providers: Readonly<Record<string, CompleteProvider>>;
}

type Report = (path: YamlPath, message: string) => void;

const unset: ParsedProvider = { headers: {}, passthrough: 'unpriced', queue: 1_000, queue_timeout: 30_000 };

/**
 * Completes the providers of a file with what their presets know, and adds those that environment variables enable. Reports a provider without a protocol or an
 * address. Throws `ConfigError` if a variable has an invalid address or key.
 */
export function completeProviders(file: ParsedFile, variables: Variables, report: Report): CompleteFile {
  const known = readPresets(variables);
  const providers: Record<string, CompleteProvider> = {};
  for (const [name, given] of Object.entries(file.providers)) {
    const reportKey = (key: string, message: string): void => report(['providers', name, key], message);
    const cloud = findCloud(name, given, variables);
    providers[name] =
      cloud === undefined
        ? complete(given, known.get(name), reportKey)
        : completeCloud(cloud, given, { known: known.get('azure'), variables, report: reportKey });
  }
  for (const cloud of cloudNames.filter(name => isCloudOn(name, variables) && !Object.hasOwn(providers, name))) {
    const from = { known: known.get('azure'), variables, report: (): void => undefined };
    providers[cloud] = completeCloud(cloud, unset, from);
  }
  for (const { preset, isOn, baseUrl } of known.values()) {
    if (!isOn || baseUrl === undefined || Object.hasOwn(providers, preset.name)) continue;
    providers[preset.name] = complete(unset, known.get(preset.name), () => undefined);
  }
  return { ...file, providers };
}

function complete(
  given: ParsedProvider,
  known: PresetSettings | undefined,
  report: (key: string, message: string) => void,
): CompleteProvider {
  const { protocol: named, protocols: listed, base_url: ownUrl, ...rest } = given;
  for (const key of cloudKeys) if (given[key] !== undefined) report(key, 'is for providers with `cloud`');
  const names = inOrder(listed, known);
  const protocol = named ?? names[0] ?? known?.preset.protocol;
  if (protocol === undefined) report('protocol', `is missing, must be ${allowedProtocols}`);
  if (protocol === 'images' && listed !== undefined) report('protocols', 'is for protocols of text');
  const spoken = protocol ?? 'chat';
  // An address of the file that stands beside `protocol` is the address of that protocol.
  const base = named === undefined && listed === undefined ? (ownUrl ?? known?.baseUrl) : known?.baseUrl;
  const find = (name: string): string | undefined =>
    listed?.[name as TextProtocol] ??
    (name === named ? ownUrl : undefined) ??
    (known === undefined || base === undefined ? undefined : addressOf(known.preset, name, base));
  const address = find(spoken) ?? ownUrl;
  if (address === undefined) report('base_url', 'is missing, must be an http:// or https:// address');
  const more = listed === undefined && named === undefined ? Object.keys(known?.preset.also ?? {}) : names;
  const others = more.flatMap(name => {
    const baseUrl = name === spoken ? undefined : find(name);
    return baseUrl === undefined ? [] : [{ protocol: name as TextProtocol, baseUrl }];
  });
  const isOwnPlace = ownUrl !== undefined || listed !== undefined;
  // A server that is asked for its models lists no prices: if the file sets it whole, the file may charge for what would be free.
  const hasCatalogue = known?.isOn === true && known.preset.discovery === undefined;
  const isPreset = known !== undefined && (hasCatalogue || named === undefined || !isOwnPlace);
  return {
    ...rest,
    ...(known === undefined || isOwnPlace ? {} : withKey(given, known)),
    ...(isPreset ? { preset: known.preset.name } : {}),
    ...(isOwnPlace ? {} : defined({ rerankUrl: known?.preset.rerankUrl })),
    protocol: spoken,
    base_url: address ?? 'http://0.0.0.0',
    others,
  };
}

/** Returns the listed protocols: those of the preset in its order, then the others in the order of the schema. */
function inOrder(listed: ParsedProvider['protocols'], known: PresetSettings | undefined): TextProtocol[] {
  const names = Object.keys(listed ?? {}) as TextProtocol[];
  const { protocol = '', also = {} } = known?.preset ?? {};
  const order: readonly string[] = [protocol, ...Object.keys(also)];
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  return names.toSorted((one, other) => place(one) - place(other));
}

/** Returns the key of the preset's variables, for a provider of the file that has none itself. It is never sent to an address of the file. */
function withKey(given: ParsedProvider, { preset, apiKeys, headers }: PresetSettings): Partial<ParsedProvider> {
  const hasOwn = given.api_key !== undefined || given.api_key_file !== undefined;
  const { keyHeader } = preset;
  if (hasOwn || (keyHeader !== undefined && Object.hasOwn(given.headers, keyHeader))) return {};
  return {
    ...(apiKeys.length === 0 ? {} : { api_key: [...apiKeys] }),
    headers: { ...headers, ...given.headers },
  };
}

const allowedProtocols = protocolNames.join(', ').replace(/, (\w+)$/, ' or $1');
