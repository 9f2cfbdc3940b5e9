import { createHash } from 'node:crypto';

/** Ids of calls that the gateway has to make up, because the upstream gave none (case GE-01). */
export const madeCallId = /^call_tg[0-9a-f]{20}$/;

/** The id of the call at `place` of an answer: the same for the same answer, another for every other. */
export function makeCallId(answerId: string, place: string): string {
  return `call_tg${createHash('sha256').update(`${answerId} ${place}`).digest('hex').slice(0, 20)}`;
}
