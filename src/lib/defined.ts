/** Returns the members that have a value: types tell absent from undefined, and so do readers of JSON. */
export function defined<Shape extends object>(shape: Shape): { [Key in keyof Shape]?: Exclude<Shape[Key], undefined> } {
  const entries = Object.entries(shape).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof Shape]?: Exclude<Shape[Key], undefined> };
}
