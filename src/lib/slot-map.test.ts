import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SlotMap } from './slot-map.ts';

const key = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(2 ** 32, 2 ** 53 - 1, 4096, 8192, 7 * 4096));
const steps = fc.array(fc.record({ key, kind: fc.constantFrom('set', 'set', 'delete', 'get') }), { maxLength: 400 });

test('it has the same entries as a Map', () => {
  fc.assert(
    fc.property(steps, all => {
      const [slots, map] = [new SlotMap<number>(), new Map<number, number>()];
      for (const [value, step] of all.entries()) {
        if (step.kind === 'set') {
          slots.set(step.key, value);
          map.set(step.key, value);
        } else if (step.kind === 'delete') {
          slots.delete(step.key);
          map.delete(step.key);
        }
        expect([slots.size, slots.get(step.key)]).toEqual([map.size, map.get(step.key)]);
      }
      for (const [each, value] of map) expect(slots.get(each)).toBe(value);
      slots.clear();
      expect([slots.size, slots.get(1)]).toEqual([0, undefined]);
    }),
  );
});

test('the map grows with many values, and each is found until it is deleted', () => {
  const slots = new SlotMap<string>();
  for (let id = 1; id <= 10_000; id++) slots.set(id * 4096, String(id));
  for (let id = 1; id <= 10_000; id += 2) slots.delete(id * 4096);
  expect(slots.size).toBe(5000);
  for (let id = 1; id <= 10_000; id++) expect(slots.get(id * 4096)).toBe(id % 2 === 0 ? String(id) : undefined);
});
