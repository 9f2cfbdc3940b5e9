let last: Promise<unknown> = Promise.resolve();

/**
 * Resolves in a later turn of the event loop, in which it resolves for no other caller. Results that have come together from another thread, because this one was computing or waited for a core, are so
 * handled one in each turn, with everything else that is ready between them.
 */
export async function ownTurn(): Promise<void> {
  last = last.then(() => new Promise(setImmediate));
  await last;
}
