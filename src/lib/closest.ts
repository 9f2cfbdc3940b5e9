/** Texts longer than this are never compared: the work is quadratic in the length. */
const comparedLengthMax = 100;

/** How many single-character insertions, deletions, replacements and swaps of neighbours turn one text into the other. */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (swapped) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? 0;
}

/**
 * The known text that was probably meant: the one with the fewest edits, at most a third of its length, whatever the case; of two
 * as near, the first. Undefined where none is near.
 */
export function closest(text: string, known: Iterable<string>): string | undefined {
  if (text.length > comparedLengthMax) return undefined;
  const wanted = text.toLowerCase();
  let best: string | undefined;
  let fewest = Infinity;
  for (const candidate of known) {
    if (candidate.length > comparedLengthMax) continue;
    const edits = editDistance(wanted, candidate.toLowerCase());
    if (edits < fewest && edits <= Math.max(1, Math.floor(candidate.length / 3))) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}
