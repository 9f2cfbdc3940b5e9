/** A tool in a group. */
export interface GroupedName {
  readonly namespace: string;
  readonly name: string;
}

/** Names for tools in groups, for upstreams without groups. */
export class FlatNames {
  readonly #taken: ReadonlySet<string>;
  readonly #own = new Map<string, GroupedName>();

  /** `taken`: names of tools outside of all groups. */
  constructor(taken: ReadonlySet<string>) {
    this.#taken = taken;
  }

  /** Returns the name outside of the group: the same for the same tool in every request of a conversation. */
  flatten(tool: GroupedName): string {
    const { namespace, name } = tool;
    let flat = namespace.endsWith('_') ? `${namespace}${name}` : `${namespace}__${name}`;
    while (this.#taken.has(flat)) flat += '_';
    this.#own.set(flat, tool);
    return flat;
  }

  /** Returns the tool of a flat name; undefined if it stood in no group. */
  restore(flat: string): GroupedName | undefined {
    return this.#own.get(flat);
  }

  /** No name had to be flattened. */
  get isEmpty(): boolean {
    return this.#own.size === 0;
  }
}
