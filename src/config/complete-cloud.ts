import { type CloudName, cloudAddress, cloudProtocolNames, readCloud } from './clouds.ts';
import type { CompleteProvider } from './complete-providers.ts';
import type { Variables } from './env.ts';
import { bedrockKeyVariable, findKey, type PresetSettings, type TextProtocol } from './presets.ts';
import type { ParsedProvider } from './schema.ts';

/** Returns whether variables alone enable a cloud. Azure with a key and no version is a preset. */
export function isCloudOn(name: CloudName, variables: Variables): boolean {
  const isSet = (variable: string): boolean => (variables[variable] ?? '').trim() !== '';
  if (name === 'bedrock') {
    return isSet(bedrockKeyVariable) && (isSet('AWS_REGION') || isSet('AWS_DEFAULT_REGION'));
  }
  if (name === 'vertex') return isSet('GOOGLE_CLOUD_PROJECT') && variables['GOOGLE_GENAI_USE_VERTEXAI'] === 'true';
  return isSet('AZURE_OPENAI_ENDPOINT') && (isSet('OPENAI_API_VERSION') || !isSet('AZURE_OPENAI_API_KEY'));
}

/** Returns the cloud of a provider of the file: the named one, or that of its name if the file leaves everything else to it. */
export function findCloud(name: string, given: ParsedProvider, variables: Variables): CloudName | undefined {
  if (given.cloud !== undefined) return given.cloud;
  if (given.protocol !== undefined || given.protocols !== undefined) return undefined;
  if (name === 'bedrock' || name === 'vertex') return name;
  const isCloud = given.api_version !== undefined || given.credentials !== undefined;
  return name === 'azure' && (isCloud || (given.base_url === undefined && isCloudOn(name, variables)))
    ? name
    : undefined;
}

/** The facts that complete a provider in a cloud. */
interface CloudSources {
  /** The settings of Azure from variables. */
  readonly known: PresetSettings | undefined;
  readonly variables: Variables;
  readonly report: (key: string, message: string) => void;
}

/** Completes a provider in a cloud with what variables say. Reports what is missing or contradictory. */
export function completeCloud(name: CloudName, given: ParsedProvider, sources: CloudSources): CompleteProvider {
  const { known, variables, report } = sources;
  const { protocol: named, protocols, base_url: ownUrl, ...rest } = given;
  const cloudSettings = readCloud(name, given, variables, report);
  const names: readonly string[] = cloudProtocolNames[name];
  if (protocols !== undefined) report('protocols', 'is not for clouds; `protocol` chooses one');
  if (named !== undefined && !names.includes(named)) report('protocol', `must be ${names.join(' or ')} for ${name}`);
  const base = cloudAddress(cloudSettings, ownUrl, variables);
  if (base === undefined) report('base_url', 'is missing; the variable AZURE_OPENAI_ENDPOINT sets it too');
  const [first, ...others] = named === undefined ? cloudProtocolNames[name] : [named];
  return {
    ...rest,
    ...withCloudKey(name, given, { known, variables }),
    protocol: first,
    base_url: base ?? 'http://0.0.0.0',
    cloudSettings,
    others: others.map(protocol => ({ protocol: protocol as TextProtocol, baseUrl: base ?? '' })),
  };
}

/** Returns the key that a variable has for a cloud, unless the file has a credential. It is never sent to an address of the file. */
function withCloudKey(
  name: CloudName,
  given: ParsedProvider,
  { known, variables }: Pick<CloudSources, 'known' | 'variables'>,
): Partial<ParsedProvider> {
  const hasOwn = given.api_key !== undefined || given.api_key_file !== undefined || given.credentials !== undefined;
  if (hasOwn || given.base_url !== undefined) return {};
  const key =
    name === 'azure'
      ? known?.headers['api-key']
      : name === 'bedrock'
        ? findKey([bedrockKeyVariable], variables)
        : undefined;
  return key === undefined ? {} : { api_key: [key] };
}
