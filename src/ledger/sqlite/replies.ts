import type { AdminReply } from '../rules/administration.ts';

/** Prepares commands for the writer, and reads its replies. */

/** Returns why nothing was done, for callers that distinguish only two reasons: `insufficient`, or `not_found` for any other. */
export function refusal(reply: Exclude<AdminReply, number>): 'not_found' | 'insufficient' {
  return reply === 'insufficient' ? 'insufficient' : 'not_found';
}

/** Returns a command with a copy of its hash: if the hash is a view of a larger buffer, posting it would copy the whole buffer. */
export function ownHash<T extends { readonly hash: Uint8Array }>(command: T): T {
  return { ...command, hash: Uint8Array.from(command.hash) };
}

/** Returns a row that the reader has looked up after the writer's reply named it. Throws if it is undefined, because rows are never deleted. */
export function found<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('the ledger lost a row');
  return row;
}
