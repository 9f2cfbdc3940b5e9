import { toDiscoveredModels } from '../config/discovered-models.ts';
import { type Preset, presets } from '../config/presets.ts';
import type { Config, ModelSettings } from '../config/settings.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';
import { listServerModels } from '../upstreams/server-models.ts';
import type { ProxySettings } from '../upstreams/connections.ts';
import { comparedText } from './live-config.ts';

/** How often servers are queried, how soon again after a first failure, and how long an answer may take. */
const intervalMs = 60_000;
const firstRetryMs = 2_000;
const timeoutMs = 5_000;

/** The options of discovery. */
export interface DiscoveryOptions {
  readonly proxy: ProxySettings;
  readonly logger: Logger;
  readonly config: () => Config;
  /** Called with the models of all servers when those of any server have changed. */
  readonly onModelsChanged: (models: readonly ModelSettings[]) => void;
}

/** The result of a server's last query. `listed`: it listed its models. `unauthorized`: it refused its key. `failed`: anything else, also before its first answer. */
export type ServerState = 'listed' | 'failed' | 'unauthorized';

/** The known facts about one server. */
interface KnownServer {
  models: readonly ModelSettings[];
  state: ServerState;
  /** Consecutive failed queries. */
  failures: number;
  /** Identifies what was logged last, so that it is not logged again. */
  logged: string;
}

/**
 * Queries the servers that environment variables have enabled, to learn their models and what these can do: at the start, and once a minute, sooner after a failure. If a query fails, the server's last known models stay listed; requests
 * to them fail as for any unreachable upstream.
 */
export class Discovery {
  readonly #options: DiscoveryOptions;
  readonly #known = new Map<string, KnownServer>();
  #timers = new Map<string, NodeJS.Timeout>();
  #isStopped = false;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
  }

  /** Queries all servers now, and repeats that in the background. Resolves when all have answered or failed. Never rejects. */
  start(): Promise<void> {
    return this.queryAll();
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  /** Queries all servers that are enabled now. Never rejects. */
  async queryAll(): Promise<void> {
    const enabled = presets.filter(
      ({ name, discovery }) => discovery !== undefined && this.#findProvider(name) !== undefined,
    );
    this.#forget(new Set(enabled.map(({ name }) => name)));
    await Promise.all(enabled.map(preset => this.#query(preset)));
  }

  /** Returns the result of a server's last query; undefined if it is not queried. */
  findState(provider: string): ServerState | undefined {
    return this.#known.get(provider)?.state;
  }

  /** Forgets servers, and their models, that are no longer enabled by the environment, for example because the configuration file now contains them. */
  #forget(enabled: ReadonlySet<string>): void {
    const gone = [...this.#known.keys()].filter(name => !enabled.has(name));
    for (const name of gone) {
      this.#known.delete(name);
      clearTimeout(this.#timers.get(name));
      this.#timers.delete(name);
    }
    if (gone.length > 0) this.#reportModels();
  }

  #reportModels(): void {
    this.#options.onModelsChanged([...this.#known.values()].flatMap(({ models }) => models));
  }

  #findProvider(name: string) {
    return this.#options.config().providers.find(({ preset }) => preset === name);
  }

  async #query(preset: Preset): Promise<void> {
    const { proxy, config } = this.#options;
    const { name, details } = preset;
    const { baseUrl, apiKeys: [key] = [] } = this.#findProvider(name) ?? {};
    if (baseUrl === undefined) return;
    clearTimeout(this.#timers.get(name));
    const known = this.#known.get(name) ?? { models: [], state: 'failed' as const, failures: 0, logged: '' };
    this.#known.set(name, known);
    try {
      const server = { baseUrl, proxy, timeoutMs, ...(key === undefined ? {} : { key }) };
      const list = await listServerModels(server, details);
      // Another configuration may have been loaded during the query.
      if (this.#known.get(name) !== known) return;
      known.failures = 0;
      known.state = 'listed';
      const rules = { prices: config().discovered, nowMs: systemRuntime.now() };
      this.#recordModels(preset, known, toDiscoveredModels(preset, list, rules));
    } catch (thrown) {
      known.failures += 1;
      this.#recordFailure(preset, known, thrown);
    }
    this.#scheduleQuery(preset, known);
  }

  #recordModels(
    { name }: Preset,
    known: KnownServer,
    { models, leftOut }: ReturnType<typeof toDiscoveredModels>,
  ): void {
    const { logger } = this.#options;
    const more = Object.keys(leftOut).length === 0 ? {} : { leftOut };
    const facts = { provider: name, models: models.length, ...more };
    if (models.length === 0) {
      this.#logOnce(known, comparedText(facts), () =>
        logger.warn(facts, 'a server lists no usable model; it is queried again every minute'),
      );
    }
    const stable = withEarlierTimes(models, known.models);
    // The comparison includes prices: the server may be another Tollgate, whose prices can change.
    if (comparedText(stable) === comparedText(known.models)) return;
    known.models = stable;
    if (models.length > 0) {
      this.#logOnce(known, comparedText(stable), () => logger.info(facts, 'a server listed its models'));
    }
    this.#reportModels();
  }

  #recordFailure({ name, keyVariables = [] }: Preset, known: KnownServer, error: unknown): void {
    const { logger } = this.#options;
    const status = error instanceof UpstreamFailure ? error.facts.status : undefined;
    const isRefused = status === 401 || status === 403;
    known.state = isRefused ? 'unauthorized' : 'failed';
    this.#logOnce(known, known.state, () => {
      const facts = { provider: name, ...(status === undefined ? {} : { status }), error };
      if (!isRefused) logger.warn(facts, 'a server did not list its models; it is queried again until it does');
      else
        logger.warn(
          { ...facts, variables: keyVariables },
          'a server refused its key: correct the environment variable that has it',
        );
    });
  }

  #logOnce(known: KnownServer, text: string, log: () => void): void {
    if (known.logged === text) return;
    known.logged = text;
    log();
  }

  #scheduleQuery(preset: Preset, { failures }: KnownServer): void {
    if (this.#isStopped || !this.#known.has(preset.name)) return;
    const waitMs = failures === 0 ? intervalMs : Math.min(intervalMs, firstRetryMs * 2 ** (failures - 1));
    const timer = setTimeout(() => void this.#query(preset), waitMs);
    timer.unref();
    this.#timers.set(preset.name, timer);
  }
}

/** Gives each model the creation time that it had when it was first listed, because llama.cpp reports the time of the query. */
function withEarlierTimes(models: readonly ModelSettings[], before: readonly ModelSettings[]): ModelSettings[] {
  const times = new Map(before.map(({ id, createdAt }) => [id, createdAt]));
  return models.map(model => ({ ...model, createdAt: times.get(model.id) ?? model.createdAt }));
}
