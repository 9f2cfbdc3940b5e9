/** Writes the frames of AWS event streams. Source: smithy.io/2.0/aws/amazon-eventstream.html, 2026-11-28. */
import { crc32 } from 'node:zlib';

/** Returns a frame with headers of texts. */
export function eventFrame(headers: Readonly<Record<string, string>>, payload: string): Buffer {
  const written = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const head = Buffer.alloc(name.length + 4);
      head.writeUInt8(name.length, 0);
      head.write(name, 1);
      head.writeUInt8(7, name.length + 1);
      head.writeUInt16BE(Buffer.byteLength(value), name.length + 2);
      return Buffer.concat([head, Buffer.from(value)]);
    }),
  );
  const body = Buffer.from(payload);
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + written.length + body.length, 0);
  prelude.writeUInt32BE(written.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const checked = Buffer.concat([prelude, written, body]);
  const trailer = Buffer.alloc(4);
  trailer.writeUInt32BE(crc32(checked), 0);
  return Buffer.concat([checked, trailer]);
}

/** Returns the frame of an event of a model, as Bedrock pads it. */
export function chunkFrame(event: unknown): Buffer {
  const payload = JSON.stringify({ bytes: Buffer.from(JSON.stringify(event)).toString('base64'), p: 'abcdefghijklm' });
  return eventFrame({ ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' }, payload);
}

/** Returns the frame of an exception. */
export function exceptionFrame(type: string, message: string): Buffer {
  const headers = { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' };
  return eventFrame(headers, JSON.stringify({ message }));
}
