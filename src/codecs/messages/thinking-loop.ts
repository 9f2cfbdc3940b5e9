import type { JsonObject } from '../codec.ts';
import { objectsIn, textIn } from '../json.ts';

/**
 * A call loop is what follows a prompt of the user: messages of the model with calls, each answered by a message (of the role `user`) with their results.
 * Models with a thinking budget have two rules for a request that continues such a loop. If thinking is on, the message with the
 * calls must begin with its reasoning; if thinking is off, there must be no reasoning. Clients of other protocols need not return reasoning,
 * and may request thinking in one request and not in the next.
 */

const reasoningTypes = new Set(['thinking', 'redacted_thinking']);
const isReasoning = (block: JsonObject | undefined): boolean => reasoningTypes.has(textIn(block?.['type']));
const hasToolResults = ({ role, content }: JsonObject): boolean =>
  role === 'user' && objectsIn(content)[0]?.['type'] === 'tool_result';

/**
 * Returns the model's messages since the user's last prompt; empty if the conversation does not end with results of calls. Every content
 * must be a list of blocks.
 */
function findCallLoop(messages: readonly JsonObject[]): JsonObject[] {
  const last = messages.at(-1);
  if (last === undefined || !hasToolResults(last)) return [];
  const lastPromptIndex = messages.findLastIndex(message => message['role'] === 'user' && !hasToolResults(message));
  return messages.slice(lastPromptIndex + 1).filter(({ role }) => role === 'assistant');
}

/** Returns whether a call loop continues without its reasoning; thinking must then be turned off. */
export function lacksReasoning(messages: readonly JsonObject[]): boolean {
  const latest = findCallLoop(messages).at(-1);
  return latest !== undefined && !isReasoning(objectsIn(latest['content'])[0]);
}

/** Removes the reasoning from a call loop that continues; returns false if there was none. Changes `messages`. */
export function dropLoopReasoning(messages: readonly JsonObject[]): boolean {
  const loop = findCallLoop(messages).filter(({ content }) => objectsIn(content).some(isReasoning));
  for (const message of loop) message['content'] = objectsIn(message['content']).filter(block => !isReasoning(block));
  return loop.length > 0;
}
