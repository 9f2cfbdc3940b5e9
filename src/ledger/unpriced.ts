/** Members that the provider may have billed without a price here, as the ledger stores them: a JSON array of their names. */

/** Encodes the names for storage; null: there are none. */
export function writeUnpriced(members: readonly string[] | undefined): string | null {
  return members === undefined || members.length === 0 ? null : JSON.stringify(members);
}

/** Returns the names from their stored text. */
export function readUnpriced(text: string | null): readonly string[] {
  return text === null ? [] : (JSON.parse(text) as string[]);
}
