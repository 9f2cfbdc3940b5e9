import { Secret } from '../config/secrets.ts';
import type { Config, ProviderSettings } from '../config/settings.ts';
import type { Provider } from '../core/routing/route-table.ts';
import type { KeyChange, KeyHealth } from '../generation/upstream.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { createEmbeddingSimulator } from '../simulator/embeddings/embedding-simulator.ts';
import { createImageSimulator } from '../simulator/images/image-simulator.ts';
import { createRerankSimulator } from '../simulator/rerank/rerank-simulator.ts';
import { createSimulator } from '../simulator/simulator.ts';
import type { ProxySettings } from '../upstreams/connections.ts';
import { findDialect } from '../upstreams/dialects.ts';
import { cloudProtocols, cloudSigner } from '../upstreams/clouds/open-cloud.ts';
import { HttpProvider } from '../upstreams/http-upstream.ts';
import { ImagesProvider } from '../upstreams/images.ts';
import { protocols, type UpstreamProtocol } from '../upstreams/protocols.ts';
import { type ProviderTest, testImagesProvider, testProvider } from '../upstreams/provider-test.ts';
import {
  rehearsedEmbeddings,
  rehearsedImages,
  rehearsedReranker,
  rehearsedUpstream,
} from '../upstreams/rehearsed-upstream.ts';
import { simulatorName } from './routing.ts';

/** An open provider: its upstreams, and the settings from which they were made. */
interface Opened {
  readonly settings: string;
  readonly answers: Pick<Provider, 'upstream' | 'images' | 'embeddings' | 'reranker'>;
  readonly close: () => void;
}

/**
 * The upstreams of the current configuration. If another configuration is loaded, upstreams with unchanged settings keep their connections and the state of their keys; those that were removed or changed finish their calls and close.
 */
export class UpstreamSet {
  readonly #proxy: ProxySettings;
  readonly #keyChanged: (provider: string, health: KeyHealth, change: KeyChange) => void;
  #opened = new Map<string, Opened>();

  /** `keyChanged` is called when a provider's key is refused, and when it works again. */
  constructor(proxy: ProxySettings, keyChanged: (provider: string, health: KeyHealth, change: KeyChange) => void) {
    this.#proxy = proxy;
    this.#keyChanged = keyChanged;
  }

  /** Returns the state of each provider's keys, without providers that have none. */
  keys(): { readonly provider: string; readonly keys: readonly KeyHealth[] }[] {
    return [...this.#opened].flatMap(([provider, { answers }]) => {
      const keys = (answers.upstream?.keys ?? answers.images?.keys)?.health() ?? [];
      return keys.length === 0 ? [] : [{ provider, keys }];
    });
  }

  /**
   * Tests a provider that is in use. `model`: the provider's name for the model; undefined: the first one in its list. Throws if there is no provider over HTTP with this name.
   */
  test(name: string, model: string | undefined): Promise<ProviderTest> {
    const { upstream, images } = this.#opened.get(name)?.answers ?? {};
    if (upstream instanceof HttpProvider) return testProvider(upstream, model);
    if (images instanceof ImagesProvider) return testImagesProvider(images);
    throw new Error(`${name} is not a provider over HTTP`);
  }

  /** Replaces the providers in use by those of a checked configuration. Returns the new ones. */
  replace(config: Config): Provider[] {
    const opened = new Map<string, Opened>();
    const providers = config.providers.map((settings): Provider => {
      const each = this.#findKept(settings.name, fingerprint(settings, config)) ?? this.#open(settings, config);
      opened.set(settings.name, each);
      return { name: settings.name, ...each.answers, concurrency: settings.concurrency };
    });
    if (config.simulator.enabled) {
      const settings = JSON.stringify([config.simulator, config.timeouts]);
      const each = this.#findKept(simulatorName, settings) ?? openSimulator(settings, config);
      opened.set(simulatorName, each);
      providers.push({ name: simulatorName, ...each.answers });
    }
    for (const [name, before] of this.#opened) if (opened.get(name) !== before) before.close();
    this.#opened = opened;
    return providers;
  }

  #findKept(name: string, settings: string): Opened | undefined {
    const before = this.#opened.get(name);
    return before?.settings === settings ? before : undefined;
  }

  #open(provider: ProviderSettings, config: Config): Opened {
    const { name, baseUrl, headers, timeouts, passthrough, cloud } = provider;
    const hasKey = provider.apiKeys.length > 0 || ['api-key', 'authorization'].some(key => Object.hasOwn(headers, key));
    const signer = cloud === undefined || hasKey ? undefined : cloudSigner(cloud, systemRuntime);
    const options = {
      name,
      baseUrl,
      keys: provider.apiKeys,
      headers,
      timeouts,
      eventBytesMax: config.limits.upstreamEventBytes,
      proxy: this.#proxy,
      runtime: systemRuntime,
      keyChanged: (health: KeyHealth, change: KeyChange) => this.#keyChanged(name, health, change),
      signer,
    };
    const settings = fingerprint(provider, config);
    if (provider.protocol === 'images') {
      const images = new ImagesProvider({ ...options, passthrough });
      return { settings, answers: { images }, close: () => void images.close() };
    }
    const table = cloud === undefined ? protocols : cloudProtocols(cloud);
    const protocol = findProtocol(table, provider.protocol);
    const others = (provider.others ?? []).map(each => ({ ...each, protocol: findProtocol(table, each.protocol) }));
    const spoken = [protocol, ...others.map(each => each.protocol)];
    const embeddings = spoken.find(each => each.embeddings !== undefined)?.embeddings;
    const takesTokenIds = provider.tokenIds ?? embeddings?.takesTokenIds ?? false;
    const upstream = new HttpProvider({
      ...options,
      protocol,
      others,
      dialect: findDialect(provider.dialect),
      passthrough,
      takesTokenIds,
      rerankUrl: provider.rerankUrl,
    });
    const answers = {
      upstream,
      ...(embeddings === undefined ? {} : { embeddings: upstream }),
      ...(spoken.some(each => each.rerankPath !== undefined) ? { reranker: upstream } : {}),
    };
    return { settings, answers, close: () => void upstream.close() };
  }
}

function findProtocol(table: typeof protocols, name: string): UpstreamProtocol {
  const protocol = table[name];
  if (protocol === undefined) throw new Error(`the protocol ${name} of a provider is not implemented`);
  return protocol;
}

function openSimulator(settings: string, { simulator, timeouts }: Config): Opened {
  const { tokensPerSecond, steering } = simulator;
  const limits = { timeouts, runtime: systemRuntime };
  const upstream = rehearsedUpstream(createSimulator({ tokensPerSecond, steering }), limits);
  const images = rehearsedImages(createImageSimulator({ steering }), limits);
  const embeddings = rehearsedEmbeddings(createEmbeddingSimulator({ steering }), limits);
  const reranker = rehearsedReranker(createRerankSimulator({ steering }), limits);
  return { settings, answers: { upstream, images, embeddings, reranker }, close: () => undefined };
}

/**
 * Returns all settings from which an upstream is made, as a text. It contains the secrets, because an upstream with a changed key must be replaced. The result must not leave this file.
 */
function fingerprint(provider: ProviderSettings, { limits }: Config): string {
  const { protocol, baseUrl, cloud, others, apiKeys, headers, timeouts, tokenIds, passthrough } = provider;
  const revealed = Object.entries(headers).map(([name, value]) => [name, value.reveal()]);
  const keys = apiKeys.map(key => key.reveal());
  return JSON.stringify([
    protocol,
    baseUrl,
    revealAll(cloud),
    provider.rerankUrl,
    others,
    keys,
    revealed,
    timeouts,
    tokenIds,
    passthrough,
    limits.upstreamEventBytes,
  ]);
}

/** Returns a value with the texts of its secrets. */
function revealAll(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, revealAll(member)]));
}
