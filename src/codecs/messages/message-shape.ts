import { type Item, ItemStatus, type ToolCall, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import type { Started } from '../../gen/tollgate/v1/event_pb.ts';
import { parseExact } from '../../lib/exact-json.ts';
import { requestIdEnd } from '../../lib/ids.ts';
import type { Json, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';

/** The members that a stream and a whole answer share. */

/** Returns the first members of an answer, in the order of Anthropic's service. */
export function messageHead(started: Started): JsonObject {
  return {
    id: `msg_${requestIdEnd(started.requestId)}`,
    type: 'message',
    role: 'assistant',
    model: started.model,
  };
}

/**
 * Returns the input of a complete call. A call that was cut off gets an empty input, because half of its arguments must not look complete
 * (docs/interfaces/README.md "Refused, listed or dropped").
 */
export function parseInput(item: Item, call: ToolCall): JsonObject {
  if (call.kind === ToolKind.CUSTOM) return { input: call.arguments.toWellFormed() };
  if (call.arguments === '' || item.status === ItemStatus.INCOMPLETE) return {};
  try {
    return objectIn(parseExact(call.arguments).value as Json) ?? {};
  } catch {
    return {};
  }
}
