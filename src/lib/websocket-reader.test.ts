import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WebSocketReader } from './websocket-reader.ts';
import { anyCharacters } from './any-text.fixtures.ts';

interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
  readonly isFinal?: boolean;
  readonly isMasked?: boolean;
  readonly reserved?: number;
}

/** Returns the bytes that a client sends for a frame. */
function encodeFrame({ opcode, payload, isFinal = true, isMasked = true, reserved = 0 }: Frame): Buffer {
  const long = payload.length < 126 ? 0 : payload.length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + long);
  head[0] = (isFinal ? 0x80 : 0) | reserved | opcode;
  head[1] = (isMasked ? 0x80 : 0) | (long === 0 ? payload.length : long === 2 ? 126 : 127);
  if (long === 2) head.writeUInt16BE(payload.length, 2);
  if (long === 8) head.writeBigUInt64BE(BigInt(payload.length), 2);
  if (!isMasked) return Buffer.concat([head, payload]);
  const mask = Buffer.from([0x12, 0x34, 0xab, 0xcd]);
  return Buffer.concat([head, mask, payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0))]);
}

/** The calls that a reader has made; the pieces of messages are joined. */
interface Seen {
  readonly messages: { readonly bytes: Buffer; readonly isBinary: boolean }[];
  readonly control: Buffer;
  readonly failure: string | undefined;
  readonly arriving: number;
}

/** Gives chunks to a reader, and returns its calls. */
function readChunks(chunks: readonly Buffer[], bytesMax = 1_000_000): Seen {
  const messages: Seen['messages'] = [];
  const control: Buffer[] = [];
  let failure: string | undefined;
  const reader = new WebSocketReader(bytesMax, {
    message({ pieces, size, isBinary }) {
      const bytes = Buffer.concat(pieces);
      expect(size).toBe(bytes.length);
      messages.push({ bytes, isBinary });
    },
    control: bytes => control.push(Buffer.from(bytes)),
    failed: (code, reason) => (failure = `${code} ${reason}`),
  });
  for (const chunk of chunks) reader.push(chunk);
  return { messages, control: Buffer.concat(control), failure, arriving: reader.arrivingBytes };
}

/** Cuts bytes at the given places. */
function cutBytes(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [0, ...places.map(place => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

const messages = fc.array(
  fc.record({
    text: fc.oneof(anyCharacters({ maxLength: 400 }), fc.constantFrom('', 'é€😀'.repeat(8_000))),
    isBinary: fc.boolean(),
    cuts: fc.array(fc.nat(), { maxLength: 6 }),
    hasPing: fc.boolean(),
  }),
  { maxLength: 5 },
);

test('messages are the same however they are fragmented, and however their bytes arrive', () => {
  const ping = encodeFrame({ opcode: 9, payload: Buffer.from('ping') });
  fc.assert(
    fc.property(messages, fc.array(fc.nat(), { maxLength: 30 }), (wanted, places) => {
      const sent = wanted.flatMap(({ text, isBinary, cuts, hasPing }) =>
        cutBytes(Buffer.from(text), cuts).flatMap((payload, index, all) => [
          encodeFrame({ opcode: index > 0 ? 0 : isBinary ? 2 : 1, payload, isFinal: index === all.length - 1 }),
          ...(hasPing ? [ping] : []),
        ]),
      );
      const seen = readChunks(cutBytes(Buffer.concat(sent), places));
      expect(seen.failure).toBeUndefined();
      expect(seen.messages).toEqual(wanted.map(({ text, isBinary }) => ({ bytes: Buffer.from(text), isBinary })));
      expect(seen.control).toEqual(Buffer.concat(sent.filter(bytes => bytes === ping)));
      expect(seen.arriving).toBe(0);
    }),
  );
});

test('a message of many frames of one byte has few pieces', () => {
  const frames = Array.from({ length: 100_000 }, (_, index) =>
    encodeFrame({ opcode: index === 0 ? 1 : 0, payload: Buffer.from('x'), isFinal: false }),
  );
  let pieces = 0;
  const reader = new WebSocketReader(1_000_000, {
    message: message => (pieces = message.pieces.length),
    control: () => undefined,
    failed: () => undefined,
  });
  reader.push(Buffer.concat([...frames, encodeFrame({ opcode: 0, payload: Buffer.alloc(0) })]));
  expect(pieces).toBeGreaterThan(0);
  expect(pieces).toBeLessThan(20);
});

describe('after a violation nothing more is read', () => {
  const text = (payload: string, more: Partial<Frame> = {}): Buffer =>
    encodeFrame({ opcode: 1, payload: Buffer.from(payload), ...more });
  const begun = text('a', { isFinal: false });
  test.each([
    ['a reserved bit', [text('x', { reserved: 0x40 })], '1002 A reserved bit is set.'],
    ['no mask', [text('x', { isMasked: false })], '1002 A frame is not masked.'],
    ['an unknown opcode', [text('x', { opcode: 3 })], '1002 The opcode 3 has no meaning.'],
    ['an unknown control opcode', [text('x', { opcode: 11 })], '1002 The opcode 11 has no meaning.'],
    ['a continuation of nothing', [text('x', { opcode: 0 })], '1002 A frame continues no message.'],
    ['a message within a message', [begun, text('x')], '1002 A message begins within another.'],
    ['a fragmented ping', [text('x', { opcode: 9, isFinal: false })], '1002 A control frame is fragmented.'],
    ['a long ping', [text('x'.repeat(126), { opcode: 9 })], '1002 A control frame is larger than 125 bytes.'],
    ['a long frame', [text('x'.repeat(1001))], '1009 The message is larger than 1000 bytes.'],
    ['many frames', [begun, text('x'.repeat(1000), { opcode: 0 })], '1009 The message is larger than 1000 bytes.'],
    ['no UTF-8', [text('', { payload: Buffer.from([0x61, 0xff]) })], '1007 The message is not valid UTF-8.'],
    ['half a character', [text('', { payload: Buffer.from([0xe2, 0x82]) })], '1007 The message is not valid UTF-8.'],
    [
      'a surrogate over two frames',
      [
        text('', { payload: Buffer.from([0xed]), isFinal: false }),
        text('', { opcode: 0, payload: Buffer.from([0xa0, 0x80]) }),
      ],
      '1007 The message is not valid UTF-8.',
    ],
  ])('%s', (_, frames, failure) => {
    const sent = Buffer.concat([...frames, text('later'), text('', { opcode: 9 })]);
    for (const chunks of [[sent], [...sent].map(byte => Buffer.from([byte]))]) {
      const seen = readChunks(chunks, 1000);
      expect(seen).toEqual({ messages: [], control: Buffer.alloc(0), failure, arriving: 0 });
    }
  });

  test('a message with a length of 64 bits is refused before a byte of it has arrived', () => {
    const head = Buffer.from([0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
    expect(readChunks([head], 1000).failure).toBe('1009 The message is larger than 1000 bytes.');
  });

  test('a message after the close frame is ignored', () => {
    const close = encodeFrame({ opcode: 8, payload: Buffer.from([0x03, 0xe8]) });
    expect(readChunks([close, text('x')])).toMatchObject({ messages: [], control: close, failure: undefined });
  });
});
