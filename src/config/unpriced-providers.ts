import type { Config } from './settings.ts';

/** Returns a warning for each provider that is sent what costs extra without a price (`passthrough: all`). */
export function warnUnpriced({ providers }: Pick<Config, 'providers'>): string[] {
  return providers
    .filter(({ passthrough }) => passthrough === 'all')
    .map(
      ({ name }) =>
        `${name} has passthrough: all: it is sent what costs extra (searches, tiers, other samples, audio) although no price covers it, so it may bill more than accounts pay; records name it as unpriced`,
    );
}
