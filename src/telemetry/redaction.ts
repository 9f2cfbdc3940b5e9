/** Longer texts are cut first, so that a path of kilobytes costs no time. */
const lengthMax = 300;
/** Keys of this gateway and of the best-known providers, also masked or cut ones. */
const keyLike = /\b(?:sk|mk|pk|rk|gsk|xai|hf|nvapi|AIza)[-_]?[\w*….-]{8,}/gi;
/** A run without a break that has digits and letters, or is longer than any word: an id, a token, a key. */
const longRun = /[\w+/=-]{20,}/g;

/**
 * Returns a text without what may be a secret: keys, and long runs of characters that are not words. Meant for texts that others wrote and that the log has to
 * show (an unknown path, a provider's message).
 */
export function redactTokens(text: string): string {
  return text
    .slice(0, lengthMax)
    .replaceAll(keyLike, '[redacted]')
    .replaceAll(longRun, run => (isWords(run) ? run : '[redacted]'));
}

/**
 * Returns whether a run is made of words, like names of fields and paths: each part between separators is short and
 * has no mix of digits and letters.
 */
function isWords(run: string): boolean {
  return run
    .split(/[-_/+=]/)
    .every(part => part.length <= 24 && !(/\d/.test(part) && /[a-z]/i.test(part) && part.length > 8));
}
