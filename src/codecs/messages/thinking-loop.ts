import type { JsonObject } from '../codec.ts';
import { objectsIn, textIn } from '../json.ts';

/**
 * Models with a thinking budget refuse a request that goes on after results of calls, if thinking is on and the message with the calls does not begin with its thoughts, or if
 * it is off and thoughts are there. Clients of other protocols need not give thoughts back, and may ask for thinking in one request and not in the next.
 */

const thoughtTypes = new Set(['thinking', 'redacted_thinking']);
const isThought = (block: JsonObject | undefined): boolean => thoughtTypes.has(textIn(block?.['type']));
const goesOn = ({ role, content }: JsonObject): boolean =>
  role === 'user' && objectsIn(content)[0]?.['type'] === 'tool_result';

/** What the model said since the user last spoke; empty where no results of calls are to be gone on from. Contents are lists of blocks. */
function openLoop(messages: readonly JsonObject[]): JsonObject[] {
  const last = messages.at(-1);
  if (last === undefined || !goesOn(last)) return [];
  const spoke = messages.findLastIndex(message => message['role'] === 'user' && !goesOn(message));
  return messages.slice(spoke + 1).filter(({ role }) => role === 'assistant');
}

/** Whether a loop of calls goes on without the thoughts that it began with, so that thinking can't be on. */
export function lacksThoughts(messages: readonly JsonObject[]): boolean {
  const latest = openLoop(messages).at(-1);
  return latest !== undefined && !isThought(objectsIn(latest['content'])[0]);
}

/** Takes the thoughts out of a loop of calls that goes on; false where there were none. Changes `messages`. */
export function dropLoopThoughts(messages: readonly JsonObject[]): boolean {
  const loop = openLoop(messages).filter(({ content }) => objectsIn(content).some(isThought));
  for (const message of loop) message['content'] = objectsIn(message['content']).filter(block => !isThought(block));
  return loop.length > 0;
}
