import { askedModels } from '../config/asked-models.ts';
import { type Preset, presets } from '../config/presets.ts';
import type { Config, ModelSettings } from '../config/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ProxySettings } from '../upstreams/connections.ts';
import { listModels } from '../upstreams/model-list.ts';
import { comparedText } from './live-config.ts';

/** How often servers are asked again, and how long they may take. */
const intervalMs = 60_000;
const timeoutMs = 5_000;

/** What discovery works with. */
export interface DiscoveryParts {
  readonly proxy: ProxySettings;
  readonly logger: Logger;
  readonly config: () => Config;
  /** Told when the models of any server are other ones than before. */
  readonly found: (models: readonly ModelSettings[]) => void;
}

/**
 * Asks servers that the environment has switched on which models they have: at the start, beside it, and once a minute. A server that does not answer keeps the
 * models that it had: requests to them fail as those of any upstream that is away.
 */
export class Discovery {
  readonly #parts: DiscoveryParts;
  readonly #models = new Map<string, readonly ModelSettings[]>();
  /** Servers that did not answer when they were asked last: said once. */
  readonly #away = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: DiscoveryParts) {
    this.#parts = parts;
  }

  /** Asks now, and from now on. */
  start(): void {
    void this.ask();
    this.#timer = setInterval(() => void this.ask(), intervalMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Asks all servers once. Never rejects. */
  async ask(): Promise<void> {
    const on = presets.filter(({ name, asked }) => asked !== undefined && this.#provider(name) !== undefined);
    this.#forget(new Set(on.map(({ name }) => name)));
    await Promise.all(on.map(preset => this.#ask(preset)));
  }

  /** A server that the file names from now on is the file's, and so are its models. */
  #forget(on: ReadonlySet<string>): void {
    const gone = [...this.#models.keys()].filter(name => !on.has(name));
    if (gone.length === 0) return;
    for (const name of gone) this.#models.delete(name);
    this.#parts.found([...this.#models.values()].flat());
  }

  #provider(name: string) {
    return this.#parts.config().providers.find(({ preset }) => preset === name);
  }

  async #ask(preset: Preset): Promise<void> {
    const { proxy, logger, found } = this.#parts;
    const { name } = preset;
    const { baseUrl, apiKeys: [key] = [] } = this.#provider(name) ?? {};
    if (baseUrl === undefined) return;
    try {
      const list = await listModels({ baseUrl, proxy, timeoutMs, ...(key === undefined ? {} : { key }) });
      const models = askedModels(preset, list);
      this.#away.delete(name);
      // Prices are a part of it: another Tollgate may change them.
      if (comparedText(models) === comparedText(this.#models.get(name) ?? [])) return;
      this.#models.set(name, models);
      logger.info({ provider: name, models: models.length }, 'a server told its models');
      found([...this.#models.values()].flat());
    } catch (thrown) {
      if (this.#away.has(name)) return;
      this.#away.add(name);
      logger.warn(
        { provider: name, error: thrown },
        'a server did not tell its models: it is asked again every minute',
      );
    }
  }
}
