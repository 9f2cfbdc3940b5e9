/** Texts longer than this are never compared. */
const comparedLengthMax = 100;
/** No more candidates than this are compared: looking up a wrong name must not cost much more than a right one. */
const candidatesMax = 2000;
/** Texts that differ by more edits are not typing mistakes. */
const editsMax = 3;

// Comparisons never overlap, so they can all share these rows.
const rows = [0, 1, 2].map(() => new Uint8Array(comparedLengthMax + 2));

/**
 * Returns the number of edits (single-character insertions, deletions, replacements and swaps of neighbours) that turn one text into
 * the other; if there are more than `max`, some number above `max`. Computes only the cells within `max` of the diagonal: a path through
 * any other cell has more than `max` edits.
 */
function editDistance(from: string, to: string, max: number): number {
  const far = max + 1;
  let [beforeLast, last, current] = rows as [Uint8Array, Uint8Array, Uint8Array];
  for (let column = 0; column <= to.length; column += 1) last[column] = Math.min(column, far);
  for (let row = 1; row <= from.length; row += 1) {
    const first = Math.max(1, row - max);
    const end = Math.min(to.length, row + max);
    current[first - 1] = first === 1 ? Math.min(row, far) : far;
    let fewest = at(current, first - 1);
    for (let column = first; column <= end; column += 1) {
      const same = from.charCodeAt(row - 1) === to.charCodeAt(column - 1);
      const above = column === row + max ? far : at(last, column);
      let edits = Math.min(above + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      if (row > 1 && column > 1 && swaps(from, to, row, column))
        edits = Math.min(edits, at(beforeLast, column - 2) + 1);
      current[column] = Math.min(edits, far);
      fewest = Math.min(fewest, edits);
    }
    if (fewest > max) return far;
    [beforeLast, last, current] = [last, current, beforeLast];
  }
  return at(last, to.length);
}

function at(row: Uint8Array, column: number): number {
  return row[column] ?? 0;
}

function swaps(from: string, to: string, row: number, column: number): boolean {
  return (
    from.charCodeAt(row - 1) === to.charCodeAt(column - 2) && from.charCodeAt(row - 2) === to.charCodeAt(column - 1)
  );
}

/**
 * Returns the known text that was probably meant: the one that differs by the fewest edits, ignoring case; of several, the first. It may
 * differ by one edit, or by a third of its length, but never by more than three; undefined if no text is that close. Fast enough for
 * unauthenticated callers: a millisecond for 2,000 known texts; further ones are ignored.
 */
export function closest(text: string, known: Iterable<string>): string | undefined {
  if (text.length > comparedLengthMax) return undefined;
  const wanted = text.toLowerCase();
  let best: string | undefined;
  let fewest = Infinity;
  let compared = 0;
  for (const candidate of known) {
    compared += 1;
    if (compared > candidatesMax) break;
    const { length } = candidate;
    const max = Math.min(editsMax, Math.max(1, Math.floor(length / 3)), fewest - 1);
    if (length > comparedLengthMax || Math.abs(length - wanted.length) > max) continue;
    const edits = editDistance(wanted, candidate.toLowerCase(), max);
    if (edits > max) continue;
    best = candidate;
    fewest = edits;
    if (edits === 0) break;
  }
  return best;
}
