/** Returns whether a text matches. */
export type TextMatcher = (text: string) => boolean;

/** The most `*` of a pattern that callers may set. Fewer are enough for names, and each takes time. Source: docs/security.md "Limits of size and time". */
export const patternStarsMax = 16;

/** Returns the number of `*` in a pattern; several in a row count as one, because they match the same. */
export function countStars(pattern: string): number {
  return pattern.match(/\*+/g)?.length ?? 0;
}

/**
 * Returns a matcher for a pattern in which `*` stands for any text, also none. It looks for each part between two `*` once, from left to right, so that no pattern makes it go back:
 * a regular expression of the same pattern can take exponential time.
 */
export function compilePattern(pattern: string): TextMatcher {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return text => text === pattern;
  const middle = rest.filter(part => part !== '');
  return text => {
    const end = text.length - last.length;
    if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) return false;
    let at = first.length;
    for (const part of middle) {
      const found = text.indexOf(part, at);
      if (found === -1 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}

/** The compiled lists. A list is never changed, so that it is compiled once. */
const matchers = new WeakMap<readonly string[], TextMatcher>();

/** Returns true if a text equals one of the names or matches one of the patterns of a list, which must never change. */
export function matchesOne(list: readonly string[], text: string): boolean {
  let matches = matchers.get(list);
  if (matches === undefined) {
    matches = compilePatterns(list);
    matchers.set(list, matches);
  }
  return matches(text);
}

/** Returns a matcher for texts that equal one of the names or match one of the patterns. */
export function compilePatterns(list: readonly string[]): TextMatcher {
  const names = new Set(list.filter(each => !each.includes('*')));
  const matchers = list.filter(each => each.includes('*')).map(compilePattern);
  return text => names.has(text) || matchers.some(matches => matches(text));
}
