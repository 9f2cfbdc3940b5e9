import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { CredentialSource } from '../ledger-requests.ts';
import type { Credential } from '../ledger.ts';
import { Credentials } from '../sqlite/credentials.ts';
import { overloaded } from '../../errors/overloaded.ts';
import { isDatabaseFailure } from '../../lib/postgres/errors.ts';
import { MissingResult, Results } from './replay.ts';

interface PendingRead {
  readonly find: () => Credential | undefined;
  readonly resolve: (credential: Credential | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** Reads committed credentials, without a cache, because any gateway may change them. All reads of one turn of the event loop take one round trip. */
export class CredentialReads implements CredentialSource {
  readonly #pool: PostgresPool;
  readonly #onFailure: () => void;
  #pending: PendingRead[] = [];
  #results = new Results();
  #credentials = new Credentials(this.#results.asConnection());

  /** `onFailure`: called if the database can't be read. */
  constructor(pool: PostgresPool, onFailure: () => void) {
    this.#pool = pool;
    this.#onFailure = onFailure;
  }

  find(hash: Uint8Array): Promise<Credential | undefined> {
    return this.#ask(credentials => credentials.find(hash));
  }

  findApiKey(keyId: number): Promise<Credential | undefined> {
    return this.#ask(credentials => credentials.findApiKey(keyId));
  }

  forget(): void {
    // Nothing is cached.
  }

  #ask(read: (credentials: Credentials) => Credential | undefined): Promise<Credential | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#pending.length === 0) setImmediate(() => void this.#answer());
      const credentials = this.#credentials;
      this.#pending.push({ find: () => read(credentials), resolve, reject });
    });
  }

  async #answer(): Promise<void> {
    const results = this.#results;
    let asking = this.#pending;
    this.#pending = [];
    this.#results = new Results();
    this.#credentials = new Credentials(this.#results.asConnection());
    try {
      while (asking.length > 0) {
        const missing = new Map<string, MissingResult>();
        asking = asking.filter(each => {
          const lacks = tryToAnswer(each);
          if (lacks !== undefined) missing.set(lacks.id, lacks);
          return lacks !== undefined;
        });
        if (missing.size === 0) return;
        const wanted = [...missing.values()];
        const found = await this.#pool.run(wanted.map(({ step }) => step));
        for (const [index, each] of wanted.entries()) {
          const result = found[index];
          if (result !== undefined) results.add(each, result);
        }
      }
    } catch (error) {
      const isFailure = isDatabaseFailure(error);
      if (isFailure) this.#onFailure();
      const thrown = isFailure ? overloaded('The ledger can’t be read.', error) : error;
      for (const { reject } of asking) reject(thrown);
    }
  }
}

/** Resolves the read, or returns the result that is missing for it. */
function tryToAnswer({ find, resolve, reject }: PendingRead): MissingResult | undefined {
  try {
    resolve(find());
  } catch (error) {
    if (error instanceof MissingResult) return error;
    reject(error);
  }
  return undefined;
}
