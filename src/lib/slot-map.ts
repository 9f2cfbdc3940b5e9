/**
 * A map with positive integers as keys, for entries that come and go in large numbers. (V8 keeps moving entries that are put into a long-lived
 * Map and soon removed to its old generation.) It uses open addressing with linear probing in two arrays.
 */
export class SlotMap<V> {
  #keys = new Float64Array(64);
  #values: (V | undefined)[] = emptySlots(64);
  #size = 0;

  /** The number of values. */
  get size(): number {
    return this.#size;
  }

  get(key: number): V | undefined {
    return this.#values[this.#find(key)];
  }

  set(key: number, value: V): void {
    const slot = this.#find(key);
    this.#values[slot] = value;
    if (this.#keys[slot] === key) return;
    this.#keys[slot] = key;
    this.#size++;
    if (this.#size * 2 > this.#keys.length) this.#grow();
  }

  delete(key: number): void {
    let hole = this.#find(key);
    if (this.#keys[hole] !== key) return;
    const mask = this.#keys.length - 1;
    this.#size--;
    // Moves back entries that a collision has put after the hole, because a search ends at the first empty slot.
    for (let slot = (hole + 1) & mask; ; slot = (slot + 1) & mask) {
      const other = this.#keys[slot] ?? 0;
      if (other === 0) break;
      if (((slot - this.#home(other)) & mask) < ((slot - hole) & mask)) continue;
      this.#keys[hole] = other;
      this.#values[hole] = this.#values[slot];
      hole = slot;
    }
    this.#keys[hole] = 0;
    this.#values[hole] = undefined;
  }

  /** Returns all keys, in no order. */
  keys(): number[] {
    return Array.from(this.#keys.filter((_, slot) => this.#values[slot] !== undefined));
  }

  clear(): void {
    this.#keys.fill(0);
    this.#values.fill(undefined);
    this.#size = 0;
  }

  /** Returns the slot of a key, or the empty slot where it would be put. */
  #find(key: number): number {
    const mask = this.#keys.length - 1;
    let slot = this.#home(key);
    while (this.#keys[slot] !== key && this.#keys[slot] !== 0) slot = (slot + 1) & mask;
    return slot;
  }

  #home(key: number): number {
    const mixed = Math.imul((key % 4_294_967_296) ^ (key / 4_294_967_296), 0x9e3779b1);
    return (mixed ^ (mixed >>> 15)) & (this.#keys.length - 1);
  }

  #grow(): void {
    const [keys, values] = [this.#keys, this.#values];
    this.#keys = new Float64Array(keys.length * 2);
    this.#values = emptySlots(keys.length * 2);
    this.#size = 0;
    for (const [slot, value] of values.entries()) if (value !== undefined) this.set(keys[slot] ?? 0, value);
  }
}

function emptySlots<V>(count: number): (V | undefined)[] {
  return Array.from({ length: count }, () => undefined);
}
