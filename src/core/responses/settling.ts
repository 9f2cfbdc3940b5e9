/**
 * Responses that are stored as whole and not yet charged: for the moment between the two nobody can say what became of them. Whoever asks waits for it; a
 * response that a process left so when it died has no record, and is no answer.
 */
export class Settling {
  readonly #running = new Map<string, PromiseWithResolvers<void>>();

  /** It is about to be stored. */
  begin(responseId: string): void {
    this.#running.set(responseId, Promise.withResolvers());
  }

  /** It is charged, or will not be. Does nothing where it never began. */
  end(responseId: string): void {
    this.#running.get(responseId)?.resolve();
    this.#running.delete(responseId);
  }

  /** Resolves when it is charged or will not be; at once where it is not about to be. */
  async over(responseId: string): Promise<void> {
    await this.#running.get(responseId)?.promise;
  }
}
