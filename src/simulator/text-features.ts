/** The length of the character n-grams, which make different forms of a word similar. */
const gramLength = 3;
/** The weight of a whole word, compared with an n-gram. */
const wordWeight = 3;

/** Returns the words and n-grams of a text with their weights, which grow with the square root of their frequency. */
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
