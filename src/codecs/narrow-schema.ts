import * as z from 'zod';

/**
 * Narrows schemas to the members that a body has. For each member of a schema Zod makes two objects, also if the body does not have the member, and most requests have only a few of the members that are allowed.
 */

/** The most narrowed schemas that are kept for a schema. */
const narrowedMax = 50;
/** The most members that can be absent: each is a bit of an integer. */
const bitsMax = 52;

/** The known facts about a schema whose members can be absent. */
interface Narrowing {
  /** A power of two for each member whose absence changes nothing in the result. */
  readonly bits: ReadonlyMap<string, number>;
  /** The narrowed schemas, by the sum of the bits of the members that a body has. */
  readonly narrowed: Map<number, z.ZodObject>;
}

const narrowings = new WeakMap<z.ZodObject, Narrowing>();

/**
 * Returns a schema that gives the same result and the same issues for `body`. If there are already `most` narrowed schemas, a body with another combination of members gets the whole schema.
 */
export function narrowSchema<T extends z.ZodType>(schema: T, body: unknown, most?: number): z.ZodType<z.output<T>>;
export function narrowSchema(schema: z.ZodType, body: unknown, most = narrowedMax): z.ZodType {
  // A schema with checks can't be narrowed: they could read any member.
  if (!(schema instanceof z.ZodObject) || schema.def.checks?.length) return schema;
  if (typeof body !== 'object' || body === null) return schema;
  let narrowing = narrowings.get(schema);
  if (narrowing === undefined)
    narrowings.set(schema, (narrowing = { bits: numberOptional(schema), narrowed: new Map() }));
  const { bits, narrowed } = narrowing;
  let present = 0;
  for (const name in body) present += bits.get(name) ?? 0;
  const known = narrowed.get(present);
  if (known !== undefined) return known;
  if (narrowed.size >= most) return schema;
  const shape = Object.entries(schema.shape).filter(([name]) => !bits.has(name) || name in body);
  const made = schema.clone({ ...schema.def, shape: Object.fromEntries(shape) });
  narrowed.set(present, made);
  return made;
}

function numberOptional(schema: z.ZodObject): ReadonlyMap<string, number> {
  const members = Object.entries<z.core.$ZodType>(schema.shape);
  const optional = members.filter(([, member]) => canBeAbsent(member));
  return new Map(optional.slice(0, bitsMax).map(([name], index) => [name, 2 ** index]));
}

function canBeAbsent(member: z.core.$ZodType): boolean {
  return member._zod.optin === 'optional' && z.safeParse(member, undefined).data === undefined;
}
