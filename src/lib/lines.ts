import { Buffer } from 'node:buffer';

const newline = 10;

/**
 * Yields the lines of a text that arrives in pieces of bytes, without line ends (LF or CRLF) and including blank lines. A
 * line longer than `bytesMax` is cut; the rest of it is skipped.
 */
export async function* readLines(
  pieces: AsyncIterable<Buffer>,
  bytesMax: number,
): AsyncGenerator<Buffer, void, undefined> {
  let parts: Buffer[] = [];
  let size = 0;
  const keep = (part: Buffer): void => {
    const kept = part.subarray(0, Math.max(0, bytesMax - size));
    if (kept.length > 0) parts.push(kept);
    size += part.length;
  };
  const takeLine = (): Buffer => {
    const line = Buffer.concat(parts);
    parts = [];
    size = 0;
    return line.at(-1) === 13 ? line.subarray(0, -1) : line;
  };
  for await (const piece of pieces) {
    let from = 0;
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, from)) {
      keep(piece.subarray(from, at));
      yield takeLine();
      from = at + 1;
    }
    keep(piece.subarray(from));
  }
  if (size > 0) yield takeLine();
}
