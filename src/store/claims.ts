/**
 * The port of claims. A claim is a name that only one request at a time can take, such as an idempotency key while its request runs, or a
 * conversation while a response is generated in it. It ends with the process or worker that took it.
 */
export interface Claims {
  /** Claims a name. Resolves with undefined if that succeeded, else with the mark that the present owner gave. */
  take(name: string, mark: string): Promise<string | undefined>;
  /** Resolves with the mark of the name's owner; undefined: none. */
  find(name: string): Promise<string | undefined>;
  /** Resolves with the claimed names that start with `prefix`. */
  list(prefix: string): Promise<string[]>;
  /** Ends a claim; does nothing if there is none. */
  release(name: string): void;
}

/** Claims of one process, and of its workers. */
export class MemoryClaims {
  readonly #claims = new Map<string, { readonly mark: string; readonly owner: number }>();

  /** Returns the claims of one owner: a worker by its number, 0 for the process itself. */
  of(owner: number): Claims {
    return {
      take: async (name, mark) => {
        const other = this.#claims.get(name);
        if (other === undefined) this.#claims.set(name, { mark, owner });
        return other?.mark;
      },
      find: async name => this.#claims.get(name)?.mark,
      list: async prefix => [...this.#claims.keys()].filter(name => name.startsWith(prefix)),
      release: name => {
        if (this.#claims.get(name)?.owner === owner) this.#claims.delete(name);
      },
    };
  }

  /** Ends all claims of an owner that is gone. */
  end(owner: number): void {
    for (const [name, claim] of this.#claims) if (claim.owner === owner) this.#claims.delete(name);
  }
}
