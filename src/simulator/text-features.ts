/** Characters of the pieces of words by which two spellings of a word are near each other. */
const gramLength = 3;
/** A whole word counts more than a part of one. */
const wordWeight = 3;

/** Returns the words of a text and their pieces, with their weights: the square root of their frequency. */
export function listFeatures(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  const add = (feature: string): void => void counts.set(feature, (counts.get(feature) ?? 0) + 1);
  for (const [word] of text
    .toLowerCase()
    .normalize('NFKC')
    .matchAll(/[\p{L}\p{N}]+/gu)) {
    add(`word:${word}`);
    const marked = ` ${word} `;
    for (let at = 0; at + gramLength <= marked.length; at += 1) add(`gram:${marked.slice(at, at + gramLength)}`);
  }
  for (const [feature, count] of counts) {
    counts.set(feature, Math.sqrt(count) * (feature.startsWith('word:') ? wordWeight : 1));
  }
  return counts;
}
