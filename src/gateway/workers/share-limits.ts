import type { Config, ProviderSettings } from '../../config/settings.ts';

/**
 * Returns the configuration for each of `threads` threads. Limits of the whole gateway that each thread counts separately are divided; each provider keeps at least one call per thread.
 */
export function shareLimits(config: Config, threads: number): Config {
  if (threads === 1) return config;
  const { bodyMemoryBytes, unsentMemoryBytes, sessionMemoryBytes, addressRequests, runningChoices } = config.limits;
  const share = (all: number): number => Math.max(1, Math.floor(all / threads));
  return Object.freeze({
    ...config,
    limits: {
      ...config.limits,
      bodyMemoryBytes: share(bodyMemoryBytes),
      unsentMemoryBytes: share(unsentMemoryBytes),
      sessionMemoryBytes: share(sessionMemoryBytes),
      addressRequests: share(addressRequests),
      runningChoices: share(runningChoices),
    },
    providers: config.providers.map((provider): ProviderSettings => {
      const { concurrency } = provider;
      if (concurrency === undefined) return provider;
      const { slots, waitersMax } = concurrency;
      return {
        ...provider,
        concurrency: { ...concurrency, slots: share(slots), waitersMax: Math.ceil(waitersMax / threads) },
      };
    }),
  });
}
