import { SlotMap } from '../../lib/slot-map.ts';

const bytesPerId = 8;
/** More requests than a worker can have at once. */
const idsMax = 1_048_576;
const idsAtFirst = 1024;

/**
 * The ids of a worker's requests that may have holds. They are in memory that the main thread shares: it still can read them when the worker has ended, and then voids the holds.
 */
export class HeldIds {
  readonly #memory: SharedArrayBuffer;
  /** 0: the slot is free. */
  readonly #ids: Float64Array;
  readonly #slots = new SlotMap<number>();
  readonly #free: number[] = [];
  #used = 0;

  /** `memory` is made by `makeMemory`. */
  constructor(memory: SharedArrayBuffer) {
    this.#memory = memory;
    this.#ids = new Float64Array(memory);
  }

  static makeMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer(idsAtFirst * bytesPerId, { maxByteLength: idsMax * bytesPerId });
  }

  /** Returns the ids in the memory of a worker that has ended. */
  static list(memory: SharedArrayBuffer): number[] {
    return Array.from(new Float64Array(memory)).filter(id => id !== 0);
  }

  /** Throws a `RangeError` if there are too many. */
  add(id: number): void {
    if (this.#slots.get(id) !== undefined) return;
    const slot = this.#free.pop() ?? this.#used++;
    if (slot >= this.#ids.length) this.#memory.grow(this.#memory.byteLength * 2);
    this.#ids[slot] = id;
    this.#slots.set(id, slot);
  }

  delete(id: number): void {
    const slot = this.#slots.get(id);
    if (slot === undefined) return;
    this.#ids[slot] = 0;
    this.#slots.delete(id);
    this.#free.push(slot);
  }
}
