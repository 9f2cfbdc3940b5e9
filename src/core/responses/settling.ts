/**
 * The responses that are stored as complete but not charged yet. Until they are charged, their result is unknown, and readers wait. If the process dies before that, the response has no record and does not count as an answer. They are in an array (a removed entry is replaced by the last one), because V8 keeps
 * moving entries that soon leave a long-lived Map to its old generation, where only a major garbage collection frees them.
 */
export class Settling {
  readonly #uncharged: { readonly id: string; readonly over: PromiseWithResolvers<void> }[] = [];

  /** Called before a response is stored. */
  begin(responseId: string): void {
    this.#uncharged.push({ id: responseId, over: Promise.withResolvers() });
  }

  /** Called when a response was charged, or will not be charged. Does nothing if `begin` was not called. */
  end(responseId: string): void {
    const place = this.#uncharged.findIndex(({ id }) => id === responseId);
    const ended = this.#uncharged[place];
    const last = this.#uncharged.at(-1);
    if (ended === undefined || last === undefined) return;
    this.#uncharged[place] = last;
    this.#uncharged.pop();
    ended.over.resolve();
  }

  /** Resolves when a response was charged or will not be; immediately if `begin` was not called. */
  async over(responseId: string): Promise<void> {
    await this.#uncharged.find(({ id }) => id === responseId)?.over.promise;
  }
}
