/** The name of a tool in a group. */
export interface GroupedName {
  readonly namespace: string;
  readonly name: string;
}

/** Gives tools in groups flat names, for upstreams that have no groups. */
export class FlatNames {
  readonly #taken: ReadonlySet<string>;
  readonly #grouped = new Map<string, GroupedName>();

  /** `taken`: the names of tools that are in no group. */
  constructor(taken: ReadonlySet<string>) {
    this.#taken = taken;
  }

  /** Returns the flat name of a tool in a group, which is the same in every request of a conversation. */
  flatten(tool: GroupedName): string {
    const { namespace, name } = tool;
    let flat = namespace.endsWith('_') ? `${namespace}${name}` : `${namespace}__${name}`;
    while (this.#taken.has(flat)) flat += '_';
    this.#grouped.set(flat, tool);
    return flat;
  }

  /** Returns the tool that has the flat name; undefined if no tool of a group has it. */
  restore(flat: string): GroupedName | undefined {
    return this.#grouped.get(flat);
  }

  /** True if no name was flattened. */
  get isEmpty(): boolean {
    return this.#grouped.size === 0;
  }
}
