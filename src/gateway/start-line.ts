import { resolve } from 'node:path';
import type { Environment } from '../config/env.ts';
import { warnUnpriced } from '../config/unpriced-providers.ts';
import { switchedOnBy } from '../config/presets.ts';
import type { Config, ProviderSettings } from '../config/settings.ts';
import { version } from '../lib/version.ts';
import type { OtelSettings } from '../telemetry/otel/settings.ts';
import type { Gateway } from './gateway.ts';

/** A provider in the log line of a start. */
interface StartedProvider {
  readonly name: string;
  readonly protocol: string;
  readonly keys: number;
  /** Where the provider comes from: `file`, or the environment variable that has enabled it. */
  readonly from: string;
  /** The listed ids of its models, without those that are discovered later. */
  readonly models: readonly string[];
}

/** The settings with which the gateway starts. */
interface StartSettings {
  readonly environment: Environment;
  readonly config: Config;
  /** The settings of the OTLP export; undefined: nothing is exported. */
  readonly otel: OtelSettings | undefined;
}

/** Returns the fields of the log line of the start, which identify the gateway and what it serves. */
export function startFacts(
  { environment, config, otel }: StartSettings,
  { publicUrl, rpcUrl }: Pick<Gateway, 'publicUrl' | 'rpcUrl'>,
) {
  return {
    version,
    data_dir: resolve(environment.dataDir),
    config_file: config.file === undefined ? null : resolve(config.file),
    public_url: publicUrl,
    rpc_url: rpcUrl,
    simulator: config.simulator.enabled,
    providers: config.providers.map(provider => startedProvider(provider, config, environment)),
    telemetry: { traces: otel?.traces === true, metrics: otel?.metrics === true },
    warnings: [...startWarnings(environment, config), ...(otel?.warnings ?? [])],
  };
}

function startedProvider(
  { name, protocol, apiKeys, preset }: ProviderSettings,
  { models }: Config,
  { variables }: Environment,
): StartedProvider {
  const answered = models.filter(({ routes }) => routes.some(({ provider }) => provider === name));
  const from = preset === undefined ? 'file' : (switchedOnBy(preset, variables) ?? 'file');
  return { name, protocol, keys: apiKeys.length, from, models: answered.map(({ id }) => id) };
}

/** Returns warnings about settings that work, but are probably not intended. */
function startWarnings({ rpcHost, variables }: Environment, config: Config): string[] {
  const plain = config.providers.filter(
    provider =>
      provider.apiKeys.length > 0 &&
      [provider, ...(provider.others ?? [])].some(({ baseUrl }) => isPlainAndFar(baseUrl)),
  );
  return [
    ...(isLoopback(rpcHost)
      ? []
      : [`the internal listener is open to other machines (${rpcHost}) and has no TLS: keep it in a private network`]),
    ...(config.metrics === 'public' ? ['GET /metrics is open to everybody on the public listener'] : []),
    ...warnUnpriced(config),
    ...plain.map(
      ({ name }) => `the keys of ${name} are sent unencrypted: its base_url is http:// and not on this machine`,
    ),
    ...(variables['NODE_TLS_REJECT_UNAUTHORIZED'] === '0'
      ? ['NODE_TLS_REJECT_UNAUTHORIZED=0: certificates of providers are not checked']
      : []),
    ...(config.providers.length === 0 ? ['no provider is configured: only the built-in models answer'] : []),
  ];
}

function isPlainAndFar(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === 'http:' && !isLoopback(hostname);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || host.startsWith('127.');
}
