import type { AdminReply } from '../rules/administration.ts';

/** The messages that the writer receives, and its replies. */

/** Returns why nothing was done, if for one of these reasons. */
export function refusal(reply: Exclude<AdminReply, number>): 'not_found' | 'insufficient' {
  return reply === 'insufficient' ? 'insufficient' : 'not_found';
}

/** Returns a command with a copy of its hash: one that is a view of a larger buffer would be sent with all of it. */
export function ownHash<T extends { readonly hash: Uint8Array }>(command: T): T {
  return { ...command, hash: Uint8Array.from(command.hash) };
}

/** Returns a row that the writer has just confirmed: rows are never deleted. Throws if it does not exist. */
export function found<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('the ledger lost a row');
  return row;
}
