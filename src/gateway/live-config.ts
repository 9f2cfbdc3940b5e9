import { create } from '@bufbuild/protobuf';
import { compareSettings, type SettingChange } from '../config/compare-settings.ts';
import { ConfigError, problemLine } from '../config/config-error.ts';
import { toFileSettings } from '../config/file-settings.ts';
import type { Config, ModelSettings } from '../config/settings.ts';
import type { Reloaded } from '../core/admin.ts';
import type { CatalogContent } from '../core/catalog/catalog.ts';
import { toModel } from '../core/catalog/configured-model.ts';
import type { RetryPolicy } from '../core/routing/request-plan.ts';
import type { RoutingConfig } from '../core/routing/route-table.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ModelSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import { ClientAddresses } from '../lib/client-address.ts';
import { systemClock } from '../lib/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { builtInModels, retryPolicy, toRoutes, toStrategies } from './routing.ts';
import type { UpstreamSet } from './upstream-set.ts';

/** The parts to which a new configuration is applied. */
export interface ReloadTargets {
  readonly upstreams: UpstreamSet;
  readonly router: { replace(config: RoutingConfig, retry: RetryPolicy): void };
  readonly catalog: { replace(content: CatalogContent): void };
  /** Reads the service tokens again. */
  readonly tokens: (config: Config) => void;
  readonly logger: Logger;
}

/** The result of a reload, with the settings that it has changed. */
export type ReloadedConfig = Reloaded & { readonly changes: readonly SettingChange[] };

/** The keys of the file that are read only at the start, under their names in the file. */
const atStart: readonly (readonly [key: string, of: (config: Config) => unknown])[] = [
  ['metrics', config => config.metrics],
  ['log_level', config => config.logLevel],
  ['shutdown_grace', config => config.shutdownGraceMs],
  ['daily_limit_unit', config => config.dailyLimitUnit],
  ['limits.body_bytes', config => config.limits.bodyBytes],
  ['limits.other_body_bytes', config => config.limits.otherBodyBytes],
  ['limits.parse_memory', config => config.limits.parseMemoryBytes],
  ['limits.parse_time', config => config.limits.parseMs],
  ['limits.image_file_bytes', config => config.limits.imageFileBytes],
  ['limits.image_tasks', config => config.limits.imageTasks],
  ['limits.image_task_queue', config => config.limits.imageTaskQueue],
  ['tls', config => config.tls],
  ['rpc.tls', config => config.rpc.tls],
  ['identity_provider', config => config.identityProvider],
  ['rpc.admin', config => config.rpc.admin],
  ['rpc.control_bytes', config => config.rpc.controlBytes],
  ['rpc.message_elements', config => config.rpc.messageElements],
  ['rpc.open_*', config => config.rpc.open],
  ['plans', config => config.plans],
  ['content.max_bytes', config => config.content.bytesMax],
  ['content.replay_bytes', config => config.content.replayBytesMax],
  ['content.response_lifetime', config => config.content.responseLifetimeMs],
  ['ledger', config => config.ledger],
];

/** The configuration in use. A reload applies a new configuration completely or not at all. Source: docs/configuration.md "Reloading". */
export class LiveConfig {
  readonly #read: () => Promise<Config>;
  /** The configuration at the start. Keys that are read only at the start keep these values until the process ends. */
  readonly #started: Config;
  #current: Config;
  #reloading: Promise<unknown> = Promise.resolve();
  #discovered: readonly ModelSettings[] = [];
  #readAtMs = systemClock.now();
  #whole: Config;
  /** Finds the addresses of clients behind the proxies that the current configuration trusts. */
  readonly addresses = new ClientAddresses(() => this.#current.trustedProxies);

  /** `read` reads the file again and throws `ConfigError`. */
  constructor(config: Config, read: () => Promise<Config>) {
    this.#started = config;
    this.#current = config;
    this.#whole = config;
    this.#read = read;
  }

  get current(): Config {
    return this.#current;
  }

  /** The current configuration, with the discovered models. */
  get whole(): Config {
    return this.#whole;
  }

  /** When the current configuration was read, in ms since 1970 UTC. */
  get readAtMs(): number {
    return this.#readAtMs;
  }

  /** Returns the keys of the file whose values differ from those at the start and take effect only at the next start. */
  listRestartKeys(config: Config): string[] {
    return atStart.filter(([, of]) => compareSettings(of(this.#started), of(config)).length > 0).map(([key]) => key);
  }

  /** Reads the file again and applies it. Throws `ConfigError`; then nothing has changed, and the reason is logged. */
  reload(targets: ReloadTargets): Promise<ReloadedConfig> {
    // Reloads run one after the other, so that the file that was read last is in use.
    const reloaded = this.#reloading.then(() => this.#reload(targets));
    this.#reloading = reloaded.catch(() => undefined);
    return reloaded;
  }

  /** Replaces the discovered models. A discovered model with the id of a configured one is ignored. */
  discovered(models: readonly ModelSettings[], targets: ReloadTargets): void {
    this.#discovered = models;
    this.#apply(this.#current, targets);
  }

  /** Applies a configuration. Returns the models that are now listed. */
  #apply(config: Config, { upstreams, router, catalog }: ReloadTargets): CatalogContent {
    const whole = withDiscovered(config, this.#discovered);
    const content = catalogContent(whole);
    const routing = { providers: upstreams.replace(whole), routes: toRoutes(whole), strategies: toStrategies(whole) };
    router.replace(routing, retryPolicy(whole));
    catalog.replace(content);
    this.#whole = whole;
    return content;
  }

  async #reload(targets: ReloadTargets): Promise<ReloadedConfig> {
    const { logger } = targets;
    let config: Config;
    try {
      config = await this.#read();
      // Throws if the configuration can't be applied, before anything has changed.
      catalogContent(config);
    } catch (thrown) {
      const problems = thrown instanceof ConfigError ? { problems: thrown.lines } : { error: thrown };
      logger.error(problems, 'the configuration was not reloaded; nothing has changed');
      throw thrown;
    }
    const needsRestart = this.listRestartKeys(config);
    targets.tokens(config);
    const content = this.#apply(config, targets);
    const changes = compareSettings(toFileSettings(this.#current), toFileSettings(config));
    this.#current = config;
    this.#readAtMs = systemClock.now();
    const reloaded = {
      file: config.file ?? '',
      providers: config.providers.length,
      models: content.models.length,
      needsRestart,
    };
    logger.info({ ...reloaded, changed: changes.length }, 'the configuration was reloaded');
    return { ...reloaded, changes };
  }
}

/** Adds those discovered models whose provider is enabled by the environment, and whose id is not in use. */
function withDiscovered(config: Config, models: readonly ModelSettings[]): Config {
  const taken = new Set([...config.models.map(({ id }) => id), ...config.aliases.keys()]);
  // Only providers that the environment has enabled, because a provider of the file may charge for models that discovery treats as free.
  const providers = new Set(config.providers.flatMap(({ preset }) => preset ?? []));
  const more = models.filter(
    ({ id, routes }) => !taken.has(id) && routes.every(route => providers.has(route.provider)),
  );
  return more.length === 0 ? config : { ...config, models: [...config.models, ...more] };
}

/** Returns a text by which values are compared. Amounts of money are bigints, which JSON does not have. */
export function comparedText(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each));
}

/** Returns the content of the catalogue. Configured models come first, so that if the gateway chooses a model for the client, it is a configured one. */
export function catalogContent(config: Config): CatalogContent {
  const builtIn = config.simulator.enabled ? builtInModels.map(model => create(ModelSchema, model)) : [];
  return { models: [...config.models.map(toModel), ...builtIn], aliases: config.aliases };
}

/** Returns the error for a caller of AdminService if a file was refused: each problem with file, line and path. Any other error is returned unchanged. */
export function reloadRefusal(thrown: unknown): unknown {
  if (!(thrown instanceof ConfigError)) return thrown;
  return new GatewayError('invalid_request', `The configuration was not reloaded: ${thrown.lines.join('; ')}`, {
    tip: 'Correct the file and reload again. Until then the current configuration stays in use.',
    violations: thrown.problems.map(problem => ({
      path: problem.path === '' ? [] : [problem.path],
      message: problemLine(problem),
      type: 'configuration',
    })),
    cause: thrown,
  });
}
