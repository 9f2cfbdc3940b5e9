import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sseComment, sseData, SseEventTooLarge, sseEvent, type SseMessage, SseReader } from './sse.ts';

/** Parses chunks and returns the messages. */
function read(chunks: readonly Uint8Array[], sizeMax = 1_000): SseMessage[] {
  const reader = new SseReader(sizeMax);
  return [...chunks.flatMap(chunk => reader.push(chunk)), ...reader.end()];
}

const bytes = (text: string): Uint8Array => Buffer.from(text, 'utf8');
const readText = (text: string): SseMessage[] => read([bytes(text)]);
const data = (...texts: string[]): SseMessage[] => texts.map(text => ({ event: '', data: text }));

/**
 * Everything in the format: names, comments, all line ends, lines without a value, several data lines, characters of
 * 1 to 4 bytes.
 */
const everything =
  '\uFEFF: hello\n' +
  'event: one\ndata: é€😀\n\n' +
  'data: a\r\ndata: b\r\n\r\n' +
  'data:c\rdata\rdata: d\r\r' +
  ': comment\ndata:  two blanks\nid: 7\nretry: 10\nunknown: x\n\n' +
  'event: nothing\n\n' +
  'data: {"x":"\\ud83d"}\n\n' +
  'data: last\n\n';
const expected: SseMessage[] = [
  { event: 'one', data: 'é€😀' },
  { event: '', data: 'a\nb' },
  { event: '', data: 'c\n\nd' },
  { event: '', data: ' two blanks' },
  { event: '', data: '{"x":"\\ud83d"}' },
  { event: '', data: 'last' },
];

describe('SseReader', () => {
  test('reads names, comments, all line ends, empty values and several data lines', () => {
    expect(readText(everything)).toEqual(expected);
  });

  test('gives the same events wherever the bytes are cut in two, inside characters too (case UN-01)', () => {
    const whole = bytes(everything);
    for (let at = 0; at <= whole.length; at += 1) {
      expect(read([whole.subarray(0, at), whole.subarray(at)]), `cut at ${at}`).toEqual(expected);
    }
  });

  test('gives the same events byte by byte, and in any pieces, empty ones too', () => {
    const whole = bytes(everything);
    expect(read([...whole].map(byte => Uint8Array.of(byte)))).toEqual(expected);
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), cuts => {
        const ends = [...cuts, whole.length].sort((a, b) => a - b);
        expect(read(ends.map((end, index) => whole.subarray(ends[index - 1] ?? 0, end)))).toEqual(expected);
      }),
    );
  });

  test('returns each event as soon as its blank line has arrived', () => {
    const reader = new SseReader(1_000);
    expect(reader.push(bytes('data: a\n'))).toEqual([]);
    expect(reader.push(bytes('\ndata: b'))).toEqual(data('a'));
    expect(reader.push(bytes('\n\n'))).toEqual(data('b'));
    expect(reader.end()).toEqual([]);
  });

  test('reads an event with CR alone before the next byte comes', () => {
    const reader = new SseReader(1_000);
    expect(reader.push(bytes('data: a\r\r'))).toEqual(data('a'));
    expect(reader.push(bytes('\ndata: b\r\n\r\n'))).toEqual(data('b'));
  });

  test.each([
    ['data:x\n\n', 'x', 'without a blank after the colon (case SS-07)'],
    ['\uFEFFdata: x\n\n', 'x', 'after a byte order mark (case SS-08)'],
    [': OPENROUTER PROCESSING\n\ndata: x\n\n', 'x', 'after a comment, which is never data (case SS-01)'],
  ])('reads %j %s: %s', (text, value) => {
    expect(readText(text)).toEqual(data(value));
  });

  test('a byte order mark inside the stream is data', () => {
    expect(readText('data: \uFEFFx\n\n')).toEqual(data('\uFEFFx'));
  });

  test('an event without a blank line after it is returned at the end (case SS-14)', () => {
    expect(readText('data: a\n\ndata: [DONE]')).toEqual(data('a', '[DONE]'));
    expect(readText('data: a\n\nevent: b\ndata: c\n')).toEqual([...data('a'), { event: 'b', data: 'c' }]);
    expect(readText('data: a\n\n: nothing')).toEqual(data('a'));
  });

  test('an event above the limit is refused, whether it is in one line or in several, and even before its line ends', () => {
    expect(() => read([bytes(`data: ${'x'.repeat(101)}\n\n`)], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes(`data: ${'x'.repeat(60)}\ndata: ${'x'.repeat(60)}\n\n`)], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes('data: '), bytes('x'.repeat(200))], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes(': '), bytes('x'.repeat(200))], 100)).toThrow(SseEventTooLarge);
    expect(read([bytes(`data: ${'x'.repeat(100)}\n\n`.repeat(50))], 100)).toHaveLength(50);
  });

  test('reads a line that was split, even if the buffer of its first part is used again', () => {
    const reader = new SseReader(1_000);
    const buffer = Buffer.from('data: ab');
    expect(reader.push(buffer)).toEqual([]);
    buffer.write('XXXXXXXX');
    expect(reader.push(bytes('c\n\n'))).toEqual(data('abc'));
  });
});

describe('frames', () => {
  const line = fc
    .array(fc.constantFrom('a', ' ', ':', 'é', '€', '😀', '\u0000', '\uFEFF'))
    .map(units => units.join(''));

  test('written messages are read unchanged, however they are cut into pieces', () => {
    const message = fc.record({ event: fc.constantFrom('', 'message_start', 'response.created'), data: line });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 6 }), fc.nat(), (messages, seed) => {
        const frames = messages.map(each => (each.event === '' ? sseData(each.data) : sseEvent(each.event, each.data)));
        const whole = bytes(frames.join(sseComment('keepalive')));
        const at = seed % (whole.length + 1);
        expect(read([whole.subarray(0, at), whole.subarray(at)], 100_000)).toEqual(messages);
      }),
    );
  });

  test('a comment is one line without a blank one after it (case SS-02)', () => {
    expect(sseComment('keepalive')).toBe(': keepalive\n');
  });
});
