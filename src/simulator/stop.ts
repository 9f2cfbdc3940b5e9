/** Finds the earliest stop sequence in a text. If several begin at the same place, returns the one that comes first in `stops`. */
function earliest(text: string, stops: readonly string[]): { at: number; stop: string } | undefined {
  let found: { at: number; stop: string } | undefined;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (found === undefined || at < found.at)) found = { at, stop };
  }
  return found;
}

/**
 * Yields a text, chunk by chunk, up to the first stop sequence, and returns that sequence. Holds text back that may be the beginning of one.
 * Ends chunks before a space if there is one, so that the tokens are the same as those of the whole text.
 */
export function* untilStop(chunks: Iterable<string>, stops: readonly string[]): Generator<string, string | undefined> {
  const sought = stops.filter(stop => stop !== '');
  if (sought.length === 0) {
    yield* chunks;
    return undefined;
  }
  const longest = Math.max(...sought.map(stop => stop.length));
  let held = '';
  for (const chunk of chunks) {
    held += chunk;
    // Nothing can be yielded yet, and a search would copy the text into one piece each time.
    if (held.length < longest) continue;
    const found = earliest(held, sought);
    // A longer stop sequence that begins before this one may not be complete yet.
    if (found !== undefined && found.at + longest <= held.length) break;
    const safe = held.lastIndexOf(' ', Math.min(found?.at ?? Infinity, held.length - longest + 1));
    if (safe <= 0) continue;
    yield held.slice(0, safe);
    held = held.slice(safe);
  }
  const found = earliest(held, sought);
  yield held.slice(0, found?.at);
  return found?.stop;
}
