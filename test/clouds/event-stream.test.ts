/** The frames of AWS event streams: cut anywhere, damaged anywhere, and too large. */
import { expect, test } from 'vitest';
import { SseEventTooLarge } from '../../src/lib/sse.ts';
import { EventStreamReader } from '../../src/upstreams/clouds/event-stream.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { chunkFrame, eventFrame, exceptionFrame } from './event-frames.ts';

const events = [{ type: 'message_start', text: 'é'.repeat(20) }, { type: 'ping' }, { type: 'message_stop' }];
const stream = Buffer.concat(events.map(chunkFrame));

/** Reads pieces of a stream to its end. */
function read(pieces: readonly Uint8Array[], sizeMax = 10_000): unknown[] {
  const reader = new EventStreamReader(sizeMax);
  const messages = pieces.flatMap(piece => [...reader.push(piece)]);
  return [...messages, ...reader.end()].map(({ data }) => JSON.parse(data) as unknown);
}

test('a stream that is cut at any byte has the same events', () => {
  for (let at = 0; at <= stream.length; at += 1) {
    expect(read([stream.subarray(0, at), stream.subarray(at)])).toEqual(events);
  }
  expect(read(Array.from(stream, byte => Uint8Array.of(byte)))).toEqual(events);
});

test('no changed byte goes unnoticed', () => {
  for (let at = 0; at < stream.length; at += 1) {
    const damaged = Buffer.from(stream);
    damaged.writeUInt8(damaged.readUInt8(at) ^ 0x01, at);
    expect(() => read([damaged]), `byte ${at}`).toThrow(UpstreamFailure);
  }
});

test('a stream that ends inside a frame is truncated', () => {
  const ends = new Set([
    0,
    ...events.map((_, index) => Buffer.concat(events.slice(0, index + 1).map(chunkFrame)).length),
  ]);
  for (let at = 1; at < stream.length; at += 1) {
    if (!ends.has(at)) expect(() => read([stream.subarray(0, at)])).toThrow(UpstreamFailure);
  }
});

test('events before a damaged frame are delivered', () => {
  const reader = new EventStreamReader(10_000);
  const seen: string[] = [];
  const damaged = Buffer.concat([chunkFrame(events[0]), Buffer.alloc(30, 7)]);
  expect(() => {
    for (const { data } of reader.push(damaged)) seen.push(data);
  }).toThrow(UpstreamFailure);
  expect(seen).toHaveLength(1);
});

test('an exception becomes an error of Messages, of its kind', () => {
  expect(read([exceptionFrame('throttlingException', 'slow down')])).toEqual([
    { type: 'error', error: { type: 'rate_limit_error', message: 'slow down' } },
  ]);
  const error = eventFrame({ ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'oh' }, '');
  expect(read([error])).toEqual([{ type: 'error', error: { type: 'api_error', message: 'oh' } }]);
});

test('frames of other events are skipped; a too large frame is refused by its length', () => {
  const other = eventFrame({ ':message-type': 'event', ':event-type': 'initial-response' }, '{}');
  expect(read([other, stream])).toEqual(events);
  expect(() => read([stream.subarray(0, 12)], 50)).toThrow(SseEventTooLarge);
});
