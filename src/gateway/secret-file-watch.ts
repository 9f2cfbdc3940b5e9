import { readFile } from 'node:fs/promises';
import { type SecretSource, sumSecret } from '../config/secret-sources.ts';

/** How often files of secrets are looked at: a changed one holds within 5 s. */
const intervalMs = 2_000;

/** What is watched, and who is told. */
interface WatchOptions {
  /** The files that the configuration in use was read from. */
  readonly sources: () => readonly SecretSource[];
  /** Reads the configuration again. Never rejects. */
  readonly reload: () => Promise<void>;
}

/** Has the configuration read again when the content of a secret's file is another one. A file that is away keeps the secret that it had. */
export class SecretFileWatch {
  readonly #options: WatchOptions;
  #timer: NodeJS.Timeout | undefined;
  /** What was read again last, so that a configuration that is refused is not tried every time. */
  #tried = '';

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#look(), intervalMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { sources, reload } = this.#options;
    const changed: string[] = [];
    for (const { path, sha256 } of sources()) {
      const bytes = await readFile(path).catch(() => undefined);
      if (bytes === undefined || bytes.length === 0) continue;
      const found = sumSecret(bytes);
      if (found !== sha256) changed.push(`${path} ${found}`);
    }
    const seen = changed.join('\n');
    if (seen === this.#tried) return;
    this.#tried = seen;
    if (changed.length > 0) await reload();
  }
}
