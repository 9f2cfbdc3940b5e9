import { type Item, ItemStatus, type ToolCall, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import type { Started } from '../../gen/tollgate/v1/event_pb.ts';
import { parseExact } from '../../lib/exact-json.ts';
import type { Json, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';

/** The members that a stream and a whole answer share. */

/** The members that an answer begins with, in the order of the official interface. */
export function messageHead(started: Started): JsonObject {
  return {
    id: `msg_${started.requestId.replace(/^req_/, '')}`,
    type: 'message',
    role: 'assistant',
    model: started.model,
  };
}

/**
 * Returns the input of a complete call. A cut call has none: half of its arguments must not look like all of them
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
