import { isUtf8 } from 'node:buffer';

/** Checks that bytes that arrive in pieces are UTF-8. */
export class Utf8Scan {
  /** The first bytes of a character whose other bytes have not arrived yet. */
  #rest: Buffer = Buffer.alloc(0);

  /** Takes the next bytes. Returns false if they are not UTF-8. */
  push(bytes: Buffer): boolean {
    const joined = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const end = joined.length - countUnfinished(joined);
    this.#rest = Buffer.from(joined.subarray(end));
    return isUtf8(joined.subarray(0, end));
  }

  /** Returns true if the last character is complete. */
  isWhole(): boolean {
    return this.#rest.length === 0;
  }
}

/** Returns the number of bytes of the incomplete character at the end; 0 if there is none. */
function countUnfinished(bytes: Buffer): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count += 1) {
    const byte = bytes[bytes.length - count] ?? 0;
    if ((byte & 0xc0) !== 0x80) return characterBytes(byte) > count ? count : 0;
  }
  return 0;
}

/** Returns how many bytes a character has, according to its first byte. */
function characterBytes(first: number): number {
  if (first < 0xc0) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}
