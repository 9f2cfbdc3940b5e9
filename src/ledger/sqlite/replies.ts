import type { AdminReply } from '../rules/administration.ts';

/** Helpers for commands to the writer and its replies. */

/** Returns the reason for which nothing was done: `insufficient`, or `not_found` for all others. */
export function refusal(reply: Exclude<AdminReply, number>): 'not_found' | 'insufficient' {
  return reply === 'insufficient' ? 'insufficient' : 'not_found';
}

/** Returns a command with a copy of its hash: if the hash is a view of a larger buffer, posting it would copy the whole buffer. */
export function ownHash<T extends { readonly hash: Uint8Array }>(command: T): T {
  return { ...command, hash: Uint8Array.from(command.hash) };
}

/** Returns a row that the writer has just confirmed: rows are never deleted. Throws if it does not exist. */
export function found<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('the ledger lost a row');
  return row;
}
