import type { Config } from '../config/settings.ts';
import type { ServerState } from './discovery.ts';

/** A provider that the environment has switched on. */
export interface FoundProvider {
  readonly name: string;
  /** Listed ids. */
  readonly models: readonly string[];
  /** The result of a server's query for its models; `known`: it is not queried. */
  readonly state: ServerState | 'known';
}

/**
 * Returns the providers that the environment has switched on, queried ones first. `findState`: the result of a
 * server's query; undefined: it is not queried.
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
