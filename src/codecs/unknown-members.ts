import type { Json, JsonObject } from './codec.ts';
import { objectIn } from './json.ts';

/**
 * The known members of an object: `true` for a member whose whole content is known, a shape for a member that is an object of
 * which only some members are known.
 */
export interface Shape {
  readonly [member: string]: true | Shape;
}

/** Returns a shape. `members`: names, separated by spaces, of members whose whole content is known; `inner`: shapes of the other known members. */
export function makeShape(members: string, inner: Readonly<Record<string, Shape>> = {}): Shape {
  // Without a prototype, so that no inherited name counts as known.
  const shape = Object.create(null) as Record<string, true | Shape>;
  for (const name of members.split(' ')) shape[name] = true;
  return Object.assign(shape, inner);
}

/** Returns the members of an object that its shape does not have, in the same nesting; undefined if there are none. Nulls are ignored. */
export function findUnknownMembers(value: JsonObject, shape: Shape): JsonObject | undefined {
  let rest: JsonObject | undefined;
  for (const name in value) {
    const known = shape[name];
    if (known === true) continue;
    const member = value[name] as Json;
    const left = known === undefined ? (member ?? undefined) : unknownIn(member, known);
    if (left === undefined) continue;
    rest ??= Object.create(null) as JsonObject;
    rest[name] = left;
  }
  return rest;
}

function unknownIn(member: Json, shape: Shape): JsonObject | undefined {
  const inner = objectIn(member);
  return inner === undefined ? undefined : findUnknownMembers(inner, shape);
}

/** Returns `value` with those members of `unknown` that it lacks. Objects that both have are merged in the same way; other members that both have stay as in `value`. */
export function mergeUnknown(value: JsonObject, unknown: JsonObject): JsonObject {
  const whole: JsonObject = { ...value };
  for (const [name, member] of Object.entries(unknown)) {
    const own = whole[name];
    if (own === undefined) whole[name] = member;
    else {
      const [there, more] = [objectIn(own), objectIn(member)];
      if (there !== undefined && more !== undefined) whole[name] = mergeUnknown(there, more);
    }
  }
  return whole;
}
