import { resolve } from 'node:path';
import { compareSettings, type SettingChange, settingPathText } from '../config/compare-settings.ts';
import { defaultConfigPath } from '../config/config.ts';
import { ConfigError, type Problem } from '../config/config-error.ts';
import type { Environment, Variables } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { type FileSettings, toFileSettings } from '../config/file-settings.ts';
import { toShownSettings } from '../config/shown-settings.ts';
import { variableNames } from '../config/yaml-source.ts';
import type { CheckedConfiguration, ConfigurationAdminOptions } from '../core/configuration-admin.ts';
import { withDecoys } from './decoy-variables.ts';
import type { LiveConfig } from './live-config.ts';
import { checkConfigText } from './read-config.ts';

/** Returns the operator's view of the configuration in use, and the check of a configuration that could replace it. */
export function configurationView(
  live: LiveConfig,
  { variables }: Pick<Environment, 'variables'>,
): ConfigurationAdminOptions['configuration'] {
  return {
    describe: () => ({
      file: live.current.file === undefined ? '' : resolve(live.current.file),
      readAtMs: live.readAtMs,
      settings: JSON.stringify(toShownSettings(live.current)),
      needsRestart: live.listRestartKeys(live.current),
    }),
    check: text => checkText(text, live, variables),
  };
}

/** A configuration that was read from a text, and its settings by the file's names; or the problems of the text. */
type Read = { readonly config: Config; readonly settings: FileSettings } | { readonly problems: readonly Problem[] };

async function read(file: string, text: string, variables: Variables): Promise<Read> {
  try {
    const config = await checkConfigText(file, text, variables);
    return { config, settings: toFileSettings(config) };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems };
    throw error;
  }
}

/**
 * Checks a text and compares it with the configuration in use. The text can name any environment variable, so neither the changes nor the messages that are returned contain values of the environment.
 */
async function checkText(text: string, live: LiveConfig, variables: Variables): Promise<CheckedConfiguration> {
  const file = live.current.file ?? defaultConfigPath;
  const names = variableNames(text);
  const found = await read(file, text, variables);
  const decoyed = names.length === 0 ? found : await read(file, text, withDecoys(variables, names));
  if ('problems' in found) {
    const shown = 'problems' in decoyed ? decoyed.problems : [];
    return { ...nothing, problems: found.problems.map(problem => withoutValues(problem, shown)) };
  }
  const { config, settings } = found;
  const changes = compareSettings(toFileSettings(live.current), settings);
  const foreign = 'config' in decoyed ? compareSettings(settings, decoyed.settings) : undefined;
  return {
    problems: [],
    providers: config.providers.length,
    models: config.models.length,
    changes: changes.map(change => toShownChange(change, foreign)),
    needsRestart: live.listRestartKeys(config),
  };
}

const nothing = { providers: 0, models: 0, changes: [], needsRestart: [] };

/** Replaces a message that may contain a value of the environment. `shown`: the problems that the text has with other values of the variables; a message that is the same there contains no value. */
function withoutValues({ line, path, message }: Problem, shown: readonly Problem[]): Problem {
  const isShown = shown.some(other => other.line === line && other.path === path && other.message === message);
  const hidden = 'is not allowed with the values in the environment; tollgate config check says why';
  return { path, message: isShown ? message : hidden, ...(line !== undefined && { line }) };
}

/** Hides values that come from the environment. `foreign`: the settings that the text gives with other values of the variables; undefined: unknown, so all values are hidden. */
function toShownChange(
  { path, before, after }: SettingChange,
  foreign: readonly SettingChange[] | undefined,
): CheckedConfiguration['changes'][number] {
  const same = (other: readonly string[]): boolean =>
    other.slice(0, path.length).every((step, index) => step === path[index]);
  const isHidden = foreign === undefined || foreign.some(({ path: other }) => same(other));
  // If the entry is missing there, its name comes from the environment.
  const named = foreign?.find(
    ({ path: other, after: now }) => now === undefined && other.length <= path.length && same(other),
  );
  const shownPath = named === undefined ? path : [...named.path.slice(0, -1), '***'];
  return { path: settingPathText(shownPath), before, after: after !== undefined && isHidden ? '"***"' : after };
}
