/** Returns an object without its undefined members, because types and readers of JSON distinguish absent from undefined. */
export function defined<Shape extends object>(shape: Shape): { [Key in keyof Shape]?: Exclude<Shape[Key], undefined> } {
  const entries = Object.entries(shape).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof Shape]?: Exclude<Shape[Key], undefined> };
}
