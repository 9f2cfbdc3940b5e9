import type { Command } from 'commander';
import { ConfigError } from '../config/config-error.ts';
import type { Config } from '../config/settings.ts';
import { warnUnpriced } from '../config/unpriced-providers.ts';
import { toShownSettings } from '../config/shown-settings.ts';
import { CommandFailure } from './failure.ts';
import { askGateway, type GatewayOptions } from './gateway.ts';
import { type Document, jsonText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { addGatewayOptions } from './remote.ts';
import { runningConfigCommands } from './running-config.ts';

/** Adds `config check`, `show` and `schema`. For an invalid file, the exit code of `check` and `show` is 2, and with `--json` they print a document that lists the problems. */
export function configCommands(program: Command, ports: CommandLinePorts): void {
  const config = program.command('config').description('the configuration file');
  config
    .command('check')
    .description('check a configuration file (default: the one that serve would use)')
    .argument('[file]', 'the file')
    .option('--json', 'print one JSON document')
    .action(async (path: string | undefined, { json }: { json?: true }) => {
      const config = await loadOrReport(path, ports, json === true);
      ports.streams.out(json === true ? jsonText(toDocument(config)) : summarize(config));
    });
  config
    .command('show')
    .description('show the configuration with every default filled in; secrets are shown as ***')
    .argument('[file]', 'the file')
    .option('--json', 'print one JSON document')
    .action(async (path: string | undefined, { json }: { json?: true }) => {
      const document = toShownSettings(await loadOrReport(path, ports, json === true));
      // Loaded on demand, because it would slow down every other command.
      const { stringify } = await import('yaml');
      ports.streams.out(json === true ? jsonText(document) : stringify(document));
    });
  runningConfigCommands(config, ports);
  config
    .command('schema')
    .description('print the JSON Schema of the configuration file, for editors')
    .action(async () => {
      const { configJsonSchema } = await import('../config/json-schema.ts');
      ports.streams.out(jsonText(configJsonSchema()));
    });
}

/** Loads a configuration file; `path` undefined: the one that `serve` would use. Throws `ConfigError`, after printing the problems if `json` is true. */
async function loadOrReport(path: string | undefined, ports: CommandLinePorts, json: boolean): Promise<Config> {
  try {
    return await ports.loadConfig(path);
  } catch (error) {
    if (error instanceof ConfigError && json) {
      ports.streams.out(jsonText({ valid: false, file: path ?? null, problems: error.problems }));
    }
    throw error;
  }
}

function toDocument(config: Config): Document {
  const { file, providers, models } = config;
  const counts = { providers: providers.length, models: models.length };
  return { valid: true, file: file ?? null, ...counts, problems: [], warnings: warnUnpriced(config) };
}

function summarize(config: Config): string {
  const { file, providers, models } = config;
  const warnings = warnUnpriced(config).map(text => `warning: ${text}\n`);
  const counts = `${providers.length} providers, ${models.length} models besides the built-in ones`;
  const first = file === undefined ? `no file: the defaults are used (${counts})\n` : `${file} is valid: ${counts}\n`;
  return [first, ...warnings].join('');
}

/** How long a gateway may take to check its ledger. */
const verifyTimeoutMs = 3_600_000;

type VerifyOptions = GatewayOptions & { readonly json?: true; readonly running?: true };

/** Adds `ledger verify`. The exit code is 1 if an invariant is violated. */
export function ledgerCommands(program: Command, ports: CommandLinePorts): void {
  const ledger = program.command('ledger').description('the ledger');
  const command = ledger
    .command('verify')
    .description('check every invariant of the ledger of the data directory; a gateway may be running on it')
    .option('--running', 'have the running gateway check its own ledger; it may be on another machine');
  addGatewayOptions(command).action(async ({ json, running, ...options }: VerifyOptions) => {
    const environment = ports.environment();
    const violations =
      running === true
        ? await askGateway(options, environment, async ({ admin }) => {
            return (await admin.verifyLedger({}, { timeoutMs: verifyTimeoutMs })).violations;
          })
        : await verify(options.dataDir ?? environment.dataDir, ports);
    const good = violations.length === 0;
    if (json === true) ports.streams.out(jsonText({ valid: good, violations }));
    else if (good) ports.streams.out('all invariants hold\n');
    if (!good) throw new CommandFailure(1, violations);
  });
}

async function verify(dataDir: string, ports: CommandLinePorts): Promise<readonly string[]> {
  try {
    return await ports.verifyLedger(dataDir);
  } catch (error) {
    throw new CommandFailure(1, [error instanceof Error ? error.message : String(error)], error);
  }
}
