import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { compareSettings, type SettingChange, settingPathText } from '../config/compare-settings.ts';
import type { Config } from '../config/settings.ts';
import { toShownSettings } from '../config/shown-settings.ts';
import type { History } from '../ledger/history.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Records in the audit log which settings a reload or a restart has changed, prices too. */

/** The file of the data directory with the settings that were last in use, without secrets. */
const lastSettingsFile = 'configuration.json';
/** The most settings that one row shows. */
const shownMax = 500;

interface ConfigurationAuditOptions {
  readonly ledger: Pick<History, 'recordAction'>;
  readonly dataDir: string;
  readonly logger: Logger;
}

export class ConfigurationAudit {
  readonly #options: ConfigurationAuditOptions;

  constructor(options: ConfigurationAuditOptions) {
    this.#options = options;
  }

  /** Records the changes since the last run, if there are any. A changed secret is not noticed, because none is stored. */
  async started(config: Config): Promise<void> {
    const last = this.#readLast();
    const changes = last === undefined ? [] : compareSettings(last, toShownSettings(config));
    if (changes.length > 0) await this.#record('configuration.start', config, changes);
    await this.#store(config);
  }

  /** Records a reload, even if it has changed nothing. */
  async reloaded(config: Config, changes: readonly SettingChange[]): Promise<void> {
    await this.#record('configuration.reload', config, changes);
    await this.#store(config);
  }

  #record(action: string, { file }: Config, changes: readonly SettingChange[]): Promise<void> {
    return this.#options.ledger.recordAction({
      accountId: 0,
      action,
      resourceType: 'configuration',
      resourceId: file === undefined ? null : resolve(file),
      before: toJson(changes, ({ before }) => before),
      after: toJson(changes, ({ after }) => after),
    });
  }

  #readLast(): unknown {
    try {
      return JSON.parse(readFileSync(join(this.#options.dataDir, lastSettingsFile), 'utf8')) as unknown;
    } catch {
      // It does not exist yet, or was damaged: the next change is recorded.
      return undefined;
    }
  }

  /** Stores the settings. A failure is logged: the gateway works without the file. */
  async #store(config: Config): Promise<void> {
    try {
      const text = `${JSON.stringify(toShownSettings(config))}\n`;
      await writeFile(join(this.#options.dataDir, lastSettingsFile), text, { mode: 0o600 });
    } catch (error) {
      this.#options.logger.warn({ error, file: lastSettingsFile }, 'the settings in use were not stored');
    }
  }
}

/** Returns the values of the changed settings by their paths, as JSON; null: the setting is absent. */
function toJson(changes: readonly SettingChange[], read: (change: SettingChange) => string | undefined): string {
  const members = changes
    .slice(0, shownMax)
    .map(change => `${JSON.stringify(settingPathText(change.path))}:${read(change) ?? 'null'}`);
  if (changes.length > shownMax) members.push(`"...":${JSON.stringify(`${changes.length - shownMax} more`)}`);
  return `{${members.join(',')}}`;
}
