/** The format of an answer's bytes. */
export type AnswerFormat = 'events' | 'json';

const whitespace = new Set([0x20, 0x09, 0x0a, 0x0d]);
const fields = ['data:', 'event:', 'id:', 'retry:', ':'];

/**
 * Detects the format of an answer from its first bytes, because its content type is not reliable: some upstreams send JSON with the content type of a stream, and some streams have another content type. `undecided`: only whitespace so far. `foreign`: neither a stream nor JSON, for example a web page.
 */
export function answerFormat(start: Buffer, contentType: string): AnswerFormat | 'undecided' | 'foreign' {
  // A byte order mark.
  let at = start[0] === 0xef && start[1] === 0xbb && start[2] === 0xbf ? 3 : 0;
  while (at < start.length && whitespace.has(start[at] ?? 0)) at += 1;
  if (at === start.length) return 'undecided';
  const text = start.toString('latin1', at, at + 8);
  if (text.startsWith('{') || text.startsWith('[')) return 'json';
  if (/^text\/event-stream\b/i.test(contentType)) return 'events';
  const cut = start.length - at < 8;
  return fields.some(field => text.startsWith(field) || (cut && field.startsWith(text))) ? 'events' : 'foreign';
}
