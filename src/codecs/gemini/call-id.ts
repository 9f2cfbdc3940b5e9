import { createHash } from 'node:crypto';

/** Matches the ids that the gateway assigns to calls without an id (translation case GE-01). */
export const madeCallId = /^call_tg[0-9a-f]{20}$/;

/** Returns the id of the call at `place` of an answer: the same whenever that answer is parsed, and different for each call. */
export function makeCallId(answerId: string, place: string): string {
  return `call_tg${createHash('sha256').update(`${answerId} ${place}`).digest('hex').slice(0, 20)}`;
}
