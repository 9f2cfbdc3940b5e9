/** The members of a shape that can be absent, without `undefined`. */
export type Defined<Shape> = { [Key in keyof Shape]?: Exclude<Shape[Key], undefined> };

/** Returns the members that are there: an absent one must not stand as `undefined`. */
export function defined<Shape extends object>(shape: Shape): Defined<Shape> {
  const entries = Object.entries(shape).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<Shape>;
}
