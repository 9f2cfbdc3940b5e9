/**
 * Responses that are stored as complete and not yet charged: in between, the result is unknown and readers wait. If a
 * process died there, the response has no record and does not count as an answer. An array with swap-remove: V8 keeps
 * promoting what passes through a Map.
 */
export class Settling {
  readonly #running: { readonly id: string; readonly over: PromiseWithResolvers<void> }[] = [];

  /** It is about to be stored. */
  begin(responseId: string): void {
    this.#running.push({ id: responseId, over: Promise.withResolvers() });
  }

  /** It is charged, or will not be. Does nothing if it never began. */
  end(responseId: string): void {
    const place = this.#running.findIndex(({ id }) => id === responseId);
    const ended = this.#running[place];
    const last = this.#running.at(-1);
    if (ended === undefined || last === undefined) return;
    this.#running[place] = last;
    this.#running.pop();
    ended.over.resolve();
  }

  /** Resolves when it is charged or will not be; at once if it is not about to be. */
  async over(responseId: string): Promise<void> {
    await this.#running.find(({ id }) => id === responseId)?.over.promise;
  }
}
