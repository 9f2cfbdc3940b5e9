/**
 * The interface of claims. A claim is a name that only one request can have at a time, such as an idempotency key while its request runs, or a
 * conversation while a response is generated in it. A claim ends at the latest with the process or worker that took it.
 */
export interface Claims {
  /** Claims a name. Resolves with undefined if the name was free, else with the mark of its current owner. */
  take(name: string, mark: string): Promise<string | undefined>;
  /** Resolves with the mark of a name's owner; undefined if the name is free. */
  find(name: string): Promise<string | undefined>;
  /** Resolves with the claimed names that start with `prefix`. */
  list(prefix: string): Promise<string[]>;
  /** Ends a claim; does nothing if there is none. */
  release(name: string): void;
}

/** The claims of one process and its workers, in memory. */
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

  /** Ends all claims of an owner that has ended. */
  end(owner: number): void {
    for (const [name, claim] of this.#claims) if (claim.owner === owner) this.#claims.delete(name);
  }
}
