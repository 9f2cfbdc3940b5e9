import { ConfigError } from '../config/config-error.ts';
import type { Config, TlsSettings } from '../config/settings.ts';
import { TlsFiles } from '../lib/tls-files.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The certificates of the listeners; absent: the listener uses cleartext. */
export interface ListenerTls {
  readonly edge: TlsFiles | undefined;
  readonly rpc: TlsFiles | undefined;
  /** Reads the files of the certificates again, now. */
  refresh(): void;
  close(): void;
}

/** Reads the certificates of the listeners. Throws `ConfigError` if one can't be used. */
export function openTls(config: Config, logger: Logger): ListenerTls {
  const open = (path: string, settings: TlsSettings | undefined): TlsFiles | undefined => {
    if (settings === undefined) return undefined;
    try {
      return new TlsFiles(settings, error =>
        logger.error({ error, key: path }, 'a certificate can’t be used: the previous one stays in use'),
      );
    } catch (thrown) {
      const message = `can’t be used: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
      throw new ConfigError([{ ...(config.file === undefined ? {} : { file: config.file }), path, message }]);
    }
  };
  const [edge, rpc] = [open('tls', config.tls), open('rpc.tls', config.rpc.tls)];
  const each = [edge, rpc].filter(files => files !== undefined);
  return {
    edge,
    rpc,
    refresh: () => {
      for (const files of each) files.refresh();
    },
    close: () => {
      for (const files of each) files.close();
    },
  };
}
