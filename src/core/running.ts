/** Something that runs and can be ended. */
export interface Cuttable {
  /** Ends it now. */
  cut(): void;
}

/** What runs in this process, so that stopping can wait for it and then end it. */
export class Running {
  readonly #running = new Set<Cuttable>();
  readonly #whenIdle: (() => void)[] = [];

  /** It begins. */
  add(run: Cuttable): void {
    this.#running.add(run);
  }

  /** It has ended. */
  delete(run: Cuttable): void {
    this.#running.delete(run);
    if (this.#running.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** Resolves when nothing runs; at once where that is so now. */
  async idle(): Promise<void> {
    if (this.#running.size === 0) return;
    await new Promise<void>(resolve => {
      this.#whenIdle.push(resolve);
    });
  }

  /** Ends all that runs. */
  cutAll(): void {
    for (const run of this.#running) run.cut();
  }
}
