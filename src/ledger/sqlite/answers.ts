import type { AdminReply } from '../rules/administration.ts';

/** The messages that the writer receives, and its replies. */

/** Returns why nothing was done, if it was for one of two reasons. */
export function refusal(reply: Exclude<AdminReply, number>): 'not_found' | 'insufficient' {
  return reply === 'insufficient' ? 'insufficient' : 'not_found';
}

/** Returns a command with a copy of its hash: one that is a view of a larger buffer would be sent with all of it. */
export function ownHash<T extends { readonly hash: Uint8Array }>(command: T): T {
  return { ...command, hash: Uint8Array.from(command.hash) };
}

/** Returns a row that the writer has just answered about: rows are never deleted. Throws if it is not there. */
export function found<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('the ledger lost a row');
  return row;
}
