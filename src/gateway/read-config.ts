import { loadConfig } from '../config/config.ts';
import { withPresetModels } from '../config/preset-catalogue.ts';
import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { builtInModels, checkProtocols } from './routing.ts';

/** Reads and checks the current configuration; `path` is the command line's. Throws `ConfigError`. */
export async function readConfig(environment: Environment, path: string | undefined): Promise<Config> {
  const builtInIds = builtInModels.map(model => model.id);
  const config = loadConfig({ environment, builtInIds, ...(path === undefined ? {} : { path }) });
  checkProtocols(config);
  return withPresetModels(config);
}
