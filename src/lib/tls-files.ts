import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** The paths of the PEM files of a certificate. */
export interface TlsPaths {
  readonly certPath: string;
  readonly keyPath: string;
  /** The certificate authorities for clients; absent: clients need no certificate. */
  readonly clientCaPath?: string;
}

/** The options of a TLS server. */
export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** A server that can take a new certificate for later connections, as TLS servers can. */
export interface TlsTarget {
  setSecureContext(material: TlsMaterial): void;
}

/** The interval at which the files are checked. */
const checkIntervalMs = 1_000;

/** The certificate of a listener. Its files are read again when they change, so that a renewed certificate needs no restart. */
export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #onRefused: (error: unknown) => void;
  #material: TlsMaterial;
  #targets: readonly TlsTarget[] = [];

  /**
   * `onRefused`: called if changed files can't be used; the current certificate stays in use. Throws if the files can't be
   * read or do not match.
   */
  constructor(paths: TlsPaths, onRefused: (error: unknown) => void) {
    this.#paths = paths;
    this.#onRefused = onRefused;
    this.#material = readMaterial(paths);
  }

  /** The current certificate. */
  get material(): TlsMaterial {
    return this.#material;
  }

  /** Gives a server each new certificate from now on, within seconds of the change. */
  keepUpdated(target: TlsTarget): void {
    if (this.#targets.length === 0) for (const path of this.#files()) watchFile(path, watching, this.refresh);
    this.#targets = [...this.#targets, target];
  }

  /** Reads the files now. */
  readonly refresh = (): void => {
    try {
      this.#material = readMaterial(this.#paths);
      for (const target of this.#targets) target.setSecureContext(this.#material);
    } catch (thrown) {
      // Certificate and key are written one after the other. The second change finds files that match.
      this.#onRefused(thrown);
    }
  };

  /** Stops checking the files. */
  close(): void {
    for (const path of this.#files()) unwatchFile(path, this.refresh);
  }

  #files(): string[] {
    const { certPath, keyPath, clientCaPath } = this.#paths;
    return clientCaPath === undefined ? [certPath, keyPath] : [certPath, keyPath, clientCaPath];
  }
}

/** Files are polled, because they can be replaced through links, and on file systems that do not report changes. */
const watching = { interval: checkIntervalMs, persistent: false };

function readMaterial({ certPath, keyPath, clientCaPath }: TlsPaths): TlsMaterial {
  const material = {
    cert: readFileSync(certPath),
    key: readFileSync(keyPath),
    ...(clientCaPath === undefined ? {} : { ca: readFileSync(clientCaPath) }),
  };
  createSecureContext(material);
  return material;
}
