/** The most members that a record names. */
const membersMax = 16;
/** The longest name that a record has, in UTF-16 code units: some names come from providers. */
const nameMax = 64;

/** Returns what a record names as billed without a price: each member once, within bounds; undefined: nothing. */
export function toUnpriced(members: readonly string[]): readonly string[] | undefined {
  if (members.length === 0) return undefined;
  return [...new Set(members.map(member => member.slice(0, nameMax)))].slice(0, membersMax);
}
