import { type Item, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { textIn } from '../json.ts';

/**
 * Public ids: all follow from the request's id, so that the same events make the same ids however often they are rendered, and an item's id tells which
 * response it belongs to. Source: wire.md C3 (ids); cases RP-09, RP-11.
 */

/** The id of the response that a request makes. */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId.replace(/^req_/, '')}`;
}

const itemPattern = /^[a-z]+_([0-9A-Za-z]{21})_i?\d+$/;

/** The response that an item belongs to; undefined where the gateway could not have made the item's id. */
export function responseIdOfItem(itemId: string): string | undefined {
  const suffix = itemPattern.exec(itemId)?.[1];
  return suffix === undefined ? undefined : `resp_${suffix}`;
}

/** The id of a response's item: `place` is its number in the output, or "i" and its number in the input. An item of an upstream's own tool keeps its id. */
export function itemIdOf(item: Item, responseId: string, place: string): string {
  const { content } = item;
  if (content.case === 'serverTool') {
    const own = textIn((JSON.parse(content.value.json) as JsonObject)['id']);
    if (own !== '') return own;
  }
  return `${prefixOf(item)}_${responseId.replace(/^resp_/, '')}_${place}`;
}

function prefixOf({ content }: Item): string {
  switch (content.case) {
    case 'reasoning':
      return 'rs';
    case 'toolCall':
      return content.value.kind === ToolKind.CUSTOM ? 'ctc' : 'fc';
    case 'toolResult':
      return content.value.kind === ToolKind.CUSTOM ? 'ctco' : 'fco';
    case 'compaction':
      return 'cmp';
    case 'message':
      return 'msg';
    default:
      return 'item';
  }
}

/** The longest id of a call that the interface takes. */
export const callIdMax = 64;

/** The id of a call as the interface takes it, the same for the same id. `otherwise` names a call that its upstream gave none. */
export function callIdFor(callId: string, otherwise = 'call'): string {
  if (callId === '') return otherwise;
  if (callId.length <= callIdMax) return callId;
  return `${callId.slice(0, callIdMax - 9).toWellFormed()}_${hashOf(callId)}`;
}

/** FNV-1a, 32 bits: tells ids apart that differ only in their end. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}
