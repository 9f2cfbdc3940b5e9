import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** The paths of a certificate's parts, in PEM. */
export interface TlsPaths {
  readonly certPath: string;
  readonly keyPath: string;
  /** Authorities of callers; absent: callers need no certificate. */
  readonly clientCaPath?: string;
}

/** The options of a TLS server. */
export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** Takes a new certificate for later connections, as TLS servers do. */
export interface TlsTarget {
  setSecureContext(material: TlsMaterial): void;
}

/** Interval at which the files are checked. */
const checkIntervalMs = 1_000;

/** The certificate of a listener: read from its files, and again when they change, so that a renewed one needs no restart. */
export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #onRefused: (error: unknown) => void;
  #material: TlsMaterial;
  #targets: readonly TlsTarget[] = [];

  /**
   * `onRefused`: called for files that can't be used; the certificate in use stays. Throws if the files can't be read
   * or do not match.
   */
  constructor(paths: TlsPaths, onRefused: (error: unknown) => void) {
    this.#paths = paths;
    this.#onRefused = onRefused;
    this.#material = readMaterial(paths);
  }

  /** The certificate in use. */
  get material(): TlsMaterial {
    return this.#material;
  }

  /** From now on a server gets every certificate that replaces the one in use, within seconds of the change. */
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
      // Certificate and key are written one after the other: the second change finds both.
      this.#onRefused(thrown);
    }
  };

  /** Looks at the files no more. */
  close(): void {
    for (const path of this.#files()) unwatchFile(path, this.refresh);
  }

  #files(): string[] {
    const { certPath, keyPath, clientCaPath } = this.#paths;
    return clientCaPath === undefined ? [certPath, keyPath] : [certPath, keyPath, clientCaPath];
  }
}

/** By polling: files are also replaced through links, and on file systems that report no changes. */
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
