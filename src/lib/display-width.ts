/** Matches characters that terminals draw two columns wide: East Asian wide and full-width ones, and emoji (Unicode UAX #11). */
const wide =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97C\uAC00-\uD7A3\uF900-\uFAFF\uFE10-\uFE19\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{16FE0}-\u{18CFF}\u{1B000}-\u{1B2FF}\u{20000}-\u{3FFFD}]|\p{Emoji_Presentation}|\uFE0F/u;
/** Matches marks that are drawn over the character before them. */
const combining = /^(?:\p{Mn}|\p{Me}|[\u200B-\u200D])+$/u;

const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Returns how many columns of a terminal a text takes. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter.segment(text)) {
    if (!combining.test(segment)) width += wide.test(segment) ? 2 : 1;
  }
  return width;
}
