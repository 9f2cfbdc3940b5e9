import { readFile } from 'node:fs/promises';
import { type SecretSource, hashSecret } from '../config/secret-sources.ts';

/** How often secret files are checked. The check and the reload take time, too: a changed secret is in use within 5 s. */
const intervalMs = 2_000;

interface WatchOptions {
  /** Returns the secret files of the current configuration. */
  readonly sources: () => readonly SecretSource[];
  /** Reloads the configuration. Never rejects. */
  readonly reload: () => Promise<void>;
}

/** Reloads the configuration when the content of a secret file changes. If a file is missing or empty, its last secret stays in use. */
export class SecretFileWatch {
  readonly #options: WatchOptions;
  #timer: NodeJS.Timeout | undefined;
  /** The changes that caused the last reload, so that a refused configuration is not retried at every check. */
  #lastTried = '';

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#check(), intervalMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    const { sources, reload } = this.#options;
    const changed: string[] = [];
    for (const { path, sha256 } of sources()) {
      const bytes = await readFile(path).catch(() => undefined);
      if (bytes === undefined || bytes.length === 0) continue;
      const found = hashSecret(bytes);
      if (found !== sha256) changed.push(`${path} ${found}`);
    }
    const changes = changed.join('\n');
    if (changes === this.#lastTried) return;
    this.#lastTried = changes;
    if (changed.length > 0) await reload();
  }
}
