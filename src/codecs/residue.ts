import type { Json, JsonObject } from './codec.ts';
import { objectIn } from './json.ts';

/**
 * The members of an object that a codec reads or rebuilds: `true` for a member with all of its content, a shape for an object of which only
 * some members are known.
 */
export interface Shape {
  readonly [member: string]: true | Shape;
}

/** Returns a shape of members that are known whole, plus `inner` shapes. */
export function makeShape(members: string, inner: Readonly<Record<string, Shape>> = {}): Shape {
  // Without a prototype, so that no inherited name is known.
  const shape = Object.create(null) as Record<string, true | Shape>;
  for (const name of members.split(' ')) shape[name] = true;
  return Object.assign(shape, inner);
}

/** Returns the members of an object that its shape does not have, in their places; undefined if there are none. Nulls are ignored. */
export function findResidue(value: JsonObject, shape: Shape): JsonObject | undefined {
  let rest: JsonObject | undefined;
  for (const name in value) {
    const known = shape[name];
    if (known === true) continue;
    const member = value[name] as Json;
    const left = known === undefined ? (member ?? undefined) : residueIn(member, known);
    if (left === undefined) continue;
    rest ??= Object.create(null) as JsonObject;
    rest[name] = left;
  }
  return rest;
}

function residueIn(member: Json, shape: Shape): JsonObject | undefined {
  const inner = objectIn(member);
  return inner === undefined ? undefined : findResidue(inner, shape);
}

/** Returns `value` with the members of `residue` that it lacks, in the same places. */
export function graft(value: JsonObject, residue: JsonObject): JsonObject {
  const whole: JsonObject = { ...value };
  for (const [name, member] of Object.entries(residue)) {
    const own = whole[name];
    if (own === undefined) whole[name] = member;
    else {
      const [there, more] = [objectIn(own), objectIn(member)];
      if (there !== undefined && more !== undefined) whole[name] = graft(there, more);
    }
  }
  return whole;
}
