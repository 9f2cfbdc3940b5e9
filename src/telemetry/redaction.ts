/** Longer texts are cut first, so that a very long path takes no time. */
const lengthMax = 300;
/** Matches keys of this gateway and of the best-known providers, even masked or cut ones. */
const keyLike = /\b(?:sk|mk|pk|rk|gsk|xai|hf|nvapi|AIza)[-_]?[\w*….-]{8,}/gi;
/** Matches a long run of characters that can be an id, a token or a key. */
const longRun = /[\w+/=-]{20,}/g;

/**
 * Removes what may be a secret from a text: keys, and long runs of characters that are not words. It is for texts of others that the log must show, such as an
 * unknown path or a provider's message.
 */
export function redactTokens(text: string): string {
  return text
    .slice(0, lengthMax)
    .replaceAll(keyLike, '[redacted]')
    .replaceAll(longRun, run => (isWords(run) ? run : '[redacted]'));
}

/**
 * Returns whether a run consists of words, like names of fields and paths: each part between separators is short and
 * does not mix digits and letters.
 */
function isWords(run: string): boolean {
  return run
    .split(/[-_/+=]/)
    .every(part => part.length <= 24 && !(/\d/.test(part) && /[a-z]/i.test(part) && part.length > 8));
}
