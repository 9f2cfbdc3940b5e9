import type { Config } from './settings.ts';

/**
 * Returns a configuration as plain values, for people. Secrets are `***`; amounts and times have their unit in their
 * name; larger integers than JSON has are texts.
 */
export function toShownSettings(config: Config): Record<string, unknown> {
  return JSON.parse(shownText(config) ?? '{}') as Record<string, unknown>;
}

/** Returns a setting as JSON, in the same way; undefined if there is none. */
export function shownText(setting: unknown): string | undefined {
  return JSON.stringify(setting, (_name, value: unknown) => {
    if (typeof value === 'bigint') return String(value);
    return value instanceof Map ? (Object.fromEntries(value) as unknown) : value;
  });
}
