/** Checks tags: pairs of a name and a value that label requests. */

/** The most tags of a request, of a key or of a group. */
const tagsMax = 8;
const namePattern = /^[a-z0-9_.-]{1,32}$/;
const valueMax = 64;

/** Returns what is wrong with tags, as the rest of a sentence that begins with the name of the field; undefined if they are valid. */
export function findTagFault(tags: Readonly<Record<string, string>>): string | undefined {
  const entries = Object.entries(tags);
  if (entries.length > tagsMax) return `must be at most ${tagsMax} tags`;
  for (const [name, value] of entries) {
    if (!namePattern.test(name))
      return `"${name.slice(0, 64)}" is not a valid name: use 1 to 32 characters of a-z, 0-9, "_", "." and "-"`;
    if (value.length > valueMax) return `the value of ${name} must have at most ${valueMax} characters`;
  }
  return undefined;
}
