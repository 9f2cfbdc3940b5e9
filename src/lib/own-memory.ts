/** Returns the bytes if no others share their memory; undefined: others do, as in Node.js's pool of small buffers. */
export function ownMemory({ buffer, byteOffset, length }: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  const isOwn = buffer instanceof ArrayBuffer && byteOffset === 0 && length === buffer.byteLength;
  return isOwn ? new Uint8Array(buffer) : undefined;
}

/**
 * Frees the memory of bytes that nobody needs any more, unless other bytes share it. V8 would free it only with its next collection, and does not hurry: this memory is outside of its heap. The bytes must not be
 * waiting to be written to a socket.
 */
export function freeMemory(bytes: Uint8Array): void {
  ownMemory(bytes)?.buffer.transfer(0);
}
