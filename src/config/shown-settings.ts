import { toFileSettings } from './file-settings.ts';
import type { Config } from './settings.ts';

/** Returns a configuration as plain values, with the names and units of the file. Secrets are `***`. */
export function toShownSettings(config: Config): Record<string, unknown> {
  return JSON.parse(JSON.stringify(toFileSettings(config))) as Record<string, unknown>;
}

/** Returns a setting as JSON, with secrets as `***` and bigints as texts; undefined if the setting does not exist. */
export function shownText(setting: unknown): string | undefined {
  return JSON.stringify(setting, (_name, value: unknown) => {
    if (typeof value === 'bigint') return String(value);
    return value instanceof Map ? (Object.fromEntries(value) as unknown) : value;
  });
}
