/** One change that a rule has made in memory. */
export interface Change {
  undo(): void;
}

/** The changes of the rule that runs, so that all of them go if it fails. */
export class Journal {
  readonly #changes: Change[] = [];

  record(change: Change): void {
    this.#changes.push(change);
  }

  /** The rule is done: its changes stay. */
  keep(): void {
    this.#changes.length = 0;
  }

  /** The rule failed. */
  undo(): void {
    for (const change of this.#changes.reverse()) change.undo();
    this.#changes.length = 0;
  }
}
