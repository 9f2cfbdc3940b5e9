/** Tags: names with values that label requests. */

/** The most tags that a request brings, or that a key or a group has. */
const tagsMax = 8;
const namePattern = /^[a-z0-9_.-]{1,32}$/;
const valueMax = 64;

/** Returns the fault of tags, as the rest of a sentence that begins with their field; undefined if they are valid. */
export function findTagFault(tags: Readonly<Record<string, string>>): string | undefined {
  const entries = Object.entries(tags);
  if (entries.length > tagsMax) return `must be at most ${tagsMax} tags`;
  for (const [name, value] of entries) {
    if (!namePattern.test(name))
      return `"${name.slice(0, 64)}" is no name: it has up to 32 of a-z, 0-9, "_", "." and "-"`;
    if (value.length > valueMax) return `the value of ${name} must have at most ${valueMax} characters`;
  }
  return undefined;
}
