/**
 * Responses that are stored as complete but not yet charged: until then the result is unknown and readers wait. If a process dies in
 * between, the response has no record and does not count as an answer. An array with swap-remove: V8 keeps promoting entries of a Map.
 */
export class Settling {
  readonly #running: { readonly id: string; readonly over: PromiseWithResolvers<void> }[] = [];

  /** Called before it is stored. */
  begin(responseId: string): void {
    this.#running.push({ id: responseId, over: Promise.withResolvers() });
  }

  /** Called when it is charged, or will not be. Does nothing without a `begin`. */
  end(responseId: string): void {
    const place = this.#running.findIndex(({ id }) => id === responseId);
    const ended = this.#running[place];
    const last = this.#running.at(-1);
    if (ended === undefined || last === undefined) return;
    this.#running[place] = last;
    this.#running.pop();
    ended.over.resolve();
  }

  /** Resolves when it is charged or will not be; at once without a `begin`. */
  async over(responseId: string): Promise<void> {
    await this.#running.find(({ id }) => id === responseId)?.over.promise;
  }
}
