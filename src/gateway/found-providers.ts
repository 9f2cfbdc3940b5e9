import type { Config } from '../config/settings.ts';
import type { ServerState } from './discovery.ts';

/** A provider that the environment has switched on. */
export interface FoundProvider {
  readonly name: string;
  /** Listed ids. */
  readonly models: readonly string[];
  /** How a server answered that is asked for its models; `known`: it is not asked. */
  readonly state: ServerState | 'known';
}

/** Returns the providers that the environment has switched on, those that were asked for their models first. `stateOf`: how a server answered; undefined: it is not asked. */
export function foundProviders(
  { providers, models }: Config,
  stateOf: (provider: string) => ServerState | undefined,
): FoundProvider[] {
  const found = providers
    .filter(({ preset }) => preset !== undefined)
    .map(({ name }) => ({
      name,
      models: models.filter(({ routes }) => routes.some(({ provider }) => provider === name)).map(({ id }) => id),
      state: stateOf(name) ?? ('known' as const),
    }));
  return [...found.filter(({ state }) => state !== 'known'), ...found.filter(({ state }) => state === 'known')];
}
