import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn, objectsIn, textIn } from '../json.ts';

/**
 * Returns a client's messages with the results of calls moved to right after the message with the calls; messages that were in between
 * follow. Returns the same list if nothing must be moved. Source: docs/interfaces/README.md "Tool calls".
 */
export function withOrderedResults(messages: readonly Json[]): readonly Json[] {
  if (messages.every((message, index) => !isResult(message) || follows(messages[index - 1]))) return messages;
  const used = new Set<Json>();
  const ordered: Json[] = [];
  for (const [index, message] of messages.entries()) {
    if (used.has(message)) continue;
    ordered.push(message);
    for (const { id } of objectsIn(objectIn(message)?.['tool_calls'])) {
      const result = messages
        .slice(index + 1)
        .find(each => isResult(each) && each['tool_call_id'] === id && !used.has(each));
      if (result === undefined) continue;
      used.add(result);
      ordered.push(result);
    }
  }
  return ordered;
}

function isResult(message: Json): message is JsonObject {
  return textIn(objectIn(message)?.['role']) === 'tool';
}

/** Returns whether a result may follow the message. */
function follows(message: Json | undefined): boolean {
  if (message === undefined) return false;
  return isResult(message) || listIn(objectIn(message)?.['tool_calls']).length > 0;
}
