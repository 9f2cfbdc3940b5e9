/**
 * Entries that wait, each of an owner (account). They are taken in rotation, one of each owner, so that an owner with a hundred times as many entries as the others delays only its own. Entries of one owner keep their order.
 */
export class Rotation<Owner, Entry> {
  /** The entries by owner, in the order in which owners are served. */
  readonly #entries = new Map<Owner, Entry[]>();
  #size = 0;

  /** The number of all entries. */
  get size(): number {
    return this.#size;
  }

  /** Returns the number of an owner's entries. */
  countOf(owner: Owner): number {
    return this.#entries.get(owner)?.length ?? 0;
  }

  /** Returns the first entry of an owner; undefined if it has none. */
  firstOf(owner: Owner): Entry | undefined {
    return this.#entries.get(owner)?.[0];
  }

  /** Adds an entry after all others of its owner. */
  add(owner: Owner, entry: Entry): void {
    const entries = this.#entries.get(owner);
    if (entries === undefined) this.#entries.set(owner, [entry]);
    else entries.push(entry);
    this.#size += 1;
  }

  /** Removes and returns the first entry of the owner whose turn it is; undefined if there are no entries. */
  takeNext(): Entry | undefined {
    for (const [owner, entries] of this.#entries) {
      const entry = entries.shift();
      this.#entries.delete(owner);
      if (entries.length > 0) this.#entries.set(owner, entries);
      this.#size -= 1;
      return entry;
    }
    return undefined;
  }

  /** Removes and returns the first entry of the next owner for whose first entry `isReady` returns true; the others keep their turn. Returns undefined if there is none. */
  takeReady(isReady: (owner: Owner, entry: Entry) => boolean): Entry | undefined {
    for (const [owner, entries] of this.#entries) {
      const [first] = entries;
      if (first === undefined || !isReady(owner, first)) continue;
      entries.shift();
      this.#entries.delete(owner);
      if (entries.length > 0) this.#entries.set(owner, entries);
      this.#size -= 1;
      return first;
    }
    return undefined;
  }

  /** Removes an entry of an owner. Returns false if it is not there. */
  remove(owner: Owner, entry: Entry): boolean {
    const entries = this.#entries.get(owner) ?? [];
    const index = entries.indexOf(entry);
    if (index === -1) return false;
    entries.splice(index, 1);
    if (entries.length === 0) this.#entries.delete(owner);
    this.#size -= 1;
    return true;
  }

  /** Moves an owner's entries behind those of all others. */
  endTurn(owner: Owner): void {
    const entries = this.#entries.get(owner);
    if (entries === undefined) return;
    this.#entries.delete(owner);
    this.#entries.set(owner, entries);
  }

  /**
   * Makes room for one more entry of `owner`: removes and returns the newest entry of the owner with the most entries. Returns undefined, and removes nothing, if that owner would then have fewer than `owner`.
   */
  displaceFor(owner: Owner): Entry | undefined {
    let [largest, most]: [Owner | undefined, Entry[]] = [undefined, []];
    for (const [each, entries] of this.#entries) if (entries.length > most.length) [largest, most] = [each, entries];
    if (largest === undefined || most.length - 1 < this.countOf(owner) + 1) return undefined;
    this.#size -= 1;
    return most.pop();
  }

  /** Removes and returns all entries. */
  takeAll(): Entry[] {
    const all = [...this.#entries.values()].flat();
    this.#entries.clear();
    this.#size = 0;
    return all;
  }

  /** Returns all entries, those of each owner together. */
  list(): Entry[] {
    return [...this.#entries.values()].flat();
  }
}
