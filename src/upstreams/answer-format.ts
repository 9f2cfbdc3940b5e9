/** The format of an answer's bytes. */
export type AnswerFormat = 'events' | 'json';

const whitespace = new Set([0x20, 0x09, 0x0a, 0x0d]);
const byteOrderMark = [0xef, 0xbb, 0xbf];
const fields = ['data:', 'event:', 'id:', 'retry:', ':'];

/**
 * The format of an answer by its first bytes: upstreams that do not stream answer JSON, some of them under the
 * content type of a stream, and some streams come under another. `undecided`: only blanks so far. `foreign`: neither,
 * for example a web page.
 */
export function answerFormat(start: Uint8Array, contentType: string): AnswerFormat | 'undecided' | 'foreign' {
  let at = byteOrderMark.every((byte, index) => start[index] === byte) ? byteOrderMark.length : 0;
  while (at < start.length && whitespace.has(start[at] ?? 0)) at += 1;
  if (at === start.length) return 'undecided';
  const text = Buffer.from(start.subarray(at, at + 8)).toString('latin1');
  if (text.startsWith('{') || text.startsWith('[')) return 'json';
  if (/^text\/event-stream\b/i.test(contentType)) return 'events';
  const cut = start.length - at < 8;
  return fields.some(field => text.startsWith(field) || (cut && field.startsWith(text))) ? 'events' : 'foreign';
}
