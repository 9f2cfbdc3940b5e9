import { create } from '@bufbuild/protobuf';
import { ConfigError } from '../config/config-error.ts';
import type { Config } from '../config/settings.ts';
import type { Reloaded } from '../core/admin.ts';
import type { CatalogContent } from '../core/catalog/catalog.ts';
import { modelOf } from '../core/catalog/configured-model.ts';
import type { RetryPolicy } from '../core/routing/request-plan.ts';
import type { RoutingConfig } from '../core/routing/route-table.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ModelSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import { simulatorModels } from '../simulator/models.ts';
import type { Logger } from '../telemetry/logger.ts';
import { retryPolicy, routesOf } from './routing.ts';
import type { UpstreamSet } from './upstream-set.ts';

/** What takes a new configuration. */
export interface ReloadTargets {
  readonly upstreams: UpstreamSet;
  readonly router: { replace(config: RoutingConfig, retry: RetryPolicy): void };
  readonly catalog: { replace(content: CatalogContent): void };
  readonly logger: Logger;
}

/** Keys of the file that are read only at the start, as they stand there. */
const atStart: readonly (readonly [key: string, of: (config: Config) => unknown])[] = [
  ['metrics', config => config.metrics],
  ['log_level', config => config.logLevel],
  ['shutdown_grace', config => config.shutdownGraceMs],
  ['daily_limit_unit', config => config.dailyLimitUnit],
  ['limits.body_bytes', config => config.limits.bodyBytes],
  ['plans', config => config.plans],
  ['content', config => config.content],
];

/** The configuration in use. A reload takes all of another one or nothing of it. Source: decisions §1 (SIGHUP). */
export class LiveConfig {
  readonly #read: () => Config;
  #current: Config;

  /** `read` reads the file again and throws `ConfigError`. */
  constructor(config: Config, read: () => Config) {
    this.#current = config;
    this.#read = read;
  }

  get current(): Config {
    return this.#current;
  }

  /** Reads the file again and hands it on. Throws `ConfigError`; then nothing has changed, and the log says why. */
  reload({ upstreams, router, catalog, logger }: ReloadTargets): Reloaded {
    let config: Config;
    let content: CatalogContent;
    try {
      config = this.#read();
      content = catalogContent(config);
    } catch (thrown) {
      const problems = thrown instanceof ConfigError ? { problems: thrown.lines } : { error: thrown };
      logger.error(problems, 'the configuration was not reloaded: nothing has changed');
      throw thrown;
    }
    const needsRestart = atStart
      .filter(([, of]) => textOf(of(config)) !== textOf(of(this.#current)))
      .map(([key]) => key);
    router.replace({ providers: upstreams.replace(config), routes: routesOf(config) }, retryPolicy(config));
    catalog.replace(content);
    this.#current = config;
    const reloaded = {
      file: config.file ?? '',
      providers: config.providers.length,
      models: content.models.length,
      needsRestart,
    };
    logger.info(reloaded, 'the configuration was reloaded');
    return reloaded;
  }
}

/** Amounts of money are bigints, which JSON lacks. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each));
}

/** Configured models come first: where a model is chosen for the client, the operator's own is. */
export function catalogContent(config: Config): CatalogContent {
  const builtIn = config.simulator.enabled ? simulatorModels.map(model => create(ModelSchema, model)) : [];
  return { models: [...config.models.map(modelOf), ...builtIn], aliases: config.aliases };
}

/** A refused file as a caller of AdminService is told of it: each problem with file, line and path. */
export function reloadRefusal(thrown: unknown): unknown {
  if (!(thrown instanceof ConfigError)) return thrown;
  return new GatewayError('invalid_request', `The configuration was not reloaded: ${thrown.lines.join('; ')}`, {
    tip: 'Correct the file and reload again; until then the configuration that was in use stays.',
    violations: thrown.problems.map(({ path }, index) => ({
      path: path === '' ? [] : [path],
      message: thrown.lines[index] ?? '',
      type: 'configuration',
    })),
    cause: thrown,
  });
}
