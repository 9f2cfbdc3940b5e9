import type { Config } from '../config/settings.ts';
import type { ServerState } from './discovery.ts';

/** A provider that environment variables have enabled. */
export interface FoundProvider {
  readonly name: string;
  /** The listed ids of its models. */
  readonly models: readonly string[];
  /** The result of the last query for its models; `known`: the provider is not queried. */
  readonly state: ServerState | 'known';
}

/**
 * Returns the providers that environment variables have enabled, those that are queried for their models first. `findState` returns the result of a provider's last query; undefined: the provider is not queried.
 */
export function foundProviders(
  { providers, models }: Config,
  findState: (provider: string) => ServerState | undefined,
): FoundProvider[] {
  const found = providers
    .filter(({ preset }) => preset !== undefined)
    .map(({ name }) => ({
      name,
      models: models.filter(({ routes }) => routes.some(({ provider }) => provider === name)).map(({ id }) => id),
      state: findState(name) ?? ('known' as const),
    }));
  return [...found.filter(({ state }) => state !== 'known'), ...found.filter(({ state }) => state === 'known')];
}
