import { freeMemory } from '../lib/own-memory.ts';

/** The size of a block if the sender did not tell the size of the body. */
const blockBytes = 4 * 1024 ** 2;

/** The sizes of a body that arrives. */
export interface ArrivingSizes {
  /** Up to this size the bytes stay in the pieces in which they arrive. */
  readonly smallMax: number;
  /** The size that the sender has told; undefined: none. */
  readonly expected: number | undefined;
}

/**
 * Collects the bytes of a body while they arrive. Those of a large one are moved into one block, and the memory of the arriving pieces is freed at once. A block takes no more memory than the bytes that are in it,
 * because the system adds its pages only when they are written.
 */
export class ArrivingBytes {
  readonly #sizes: ArrivingSizes;
  #pieces: Buffer[] = [];
  #size = 0;
  /** The last block, and how much of it is filled. */
  #block: Buffer | undefined;
  #filled = 0;

  constructor(sizes: ArrivingSizes) {
    this.#sizes = sizes;
  }

  /** Adds bytes. The caller must not use them afterwards. */
  push(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#size <= this.#sizes.smallMax) {
      this.#pieces.push(bytes);
      return;
    }
    if (this.#block === undefined) for (const piece of this.#pieces.splice(0)) this.#append(piece);
    this.#append(bytes);
  }

  /** Returns the bytes, and forgets them: a large body in one block if its size was told, else in blocks of megabytes. */
  take(): Buffer[] {
    const pieces = this.#pieces;
    if (this.#block !== undefined) pieces.push(this.#block.subarray(0, this.#filled));
    this.#pieces = [];
    this.#block = undefined;
    return pieces;
  }

  /** Frees the bytes. */
  drop(): void {
    if (this.#block !== undefined) freeMemory(this.#block);
    this.#block = undefined;
    for (const piece of this.take()) freeMemory(piece);
  }

  #append(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      let block = this.#block;
      if (block === undefined || this.#filled === block.length) {
        if (block !== undefined) this.#pieces.push(block);
        block = Buffer.allocUnsafeSlow(this.#pieces.length === 0 ? (this.#sizes.expected ?? blockBytes) : blockBytes);
        this.#block = block;
        this.#filled = 0;
      }
      const copied = bytes.copy(block, this.#filled, at);
      this.#filled += copied;
      at += copied;
    }
    freeMemory(bytes);
  }
}
