import { loadConfig, parseConfig } from '../config/config.ts';
import { withPresetModels } from '../config/preset-catalogue.ts';
import type { Environment, Variables } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { builtInModels, checkProtocols } from './routing.ts';

/** Reads and checks the current configuration. `path`: the file that the command line names; undefined: none. Throws `ConfigError`. */
export async function readConfig(environment: Environment, path: string | undefined): Promise<Config> {
  const builtInIds = builtInModels.map(model => model.id);
  const config = loadConfig({ environment, builtInIds, ...(path === undefined ? {} : { path }) });
  checkProtocols(config);
  return withPresetModels(config);
}

/** Checks the text of a configuration file. `file`: its path, to which relative paths in the text are relative. Throws `ConfigError`. */
export async function checkConfigText(file: string, text: string, variables: Variables): Promise<Config> {
  const config = parseConfig(file, text, { variables, builtInIds: builtInModels.map(model => model.id) });
  checkProtocols(config);
  return withPresetModels(config);
}
