/** The earliest place of any of the texts at or after `from`, and which one it is; of two at one place the first named. */
function earliest(text: string, stops: readonly string[]): { at: number; stop: string } | undefined {
  let found: { at: number; stop: string } | undefined;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (found === undefined || at < found.at)) found = { at, stop };
  }
  return found;
}

/**
 * Yields a text, chunk by chunk, up to the first stop sequence, and returns that sequence. Holds back text that may begin one; cuts before
 * a space if there is one, so that the tokens are those of the whole text.
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
    // Nothing can be yielded yet, and each search would copy the text into one piece.
    if (held.length < longest) continue;
    const found = earliest(held, sought);
    // A longer one that begins before it may not be whole yet.
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
