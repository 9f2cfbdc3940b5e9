import type { ImageSize } from './image-size.ts';

const signature = Buffer.from('89504e470d0a1a0a', 'hex');
/** The length of the signature, the length and name of the first chunk, and width and height. */
const headBytes = 24;

/**
 * Returns the size that a PNG file declares in its first chunk; undefined if the file is not a PNG, or if a side is 0. Check it before decoding the file, because a small file can declare a huge image. Source: PNG specification, 5.2 and 11.2.1.
 */
export function pngSize(bytes: Uint8Array): ImageSize | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, headBytes));
  if (head.length < headBytes || !head.subarray(0, 8).equals(signature)) return undefined;
  if (head.toString('latin1', 12, 16) !== 'IHDR') return undefined;
  const size = { width: head.readUInt32BE(16), height: head.readUInt32BE(20) };
  return size.width === 0 || size.height === 0 ? undefined : size;
}
