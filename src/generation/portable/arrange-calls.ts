import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../check/field-names.ts';

/**
 * Returns the items in an order in which the results of a turn's calls directly follow the calls; items that were in between come after the results. Returns the same list if it already has that order. A repeated result is left out. Throws `unsupported_parameter` for a result without an earlier call, and for a call without exactly one result. Source: docs/interfaces/README.md "Tool calls".
 */
export function arrangeCalls(items: readonly Item[], endpoint: Endpoint): readonly Item[] {
  const unique = withoutRepeats(items);
  const isArranged = checkCalls(unique, endpoint);
  return isArranged ? unique : moveResults(unique);
}

/**
 * Returns the items without repeated equal results of calls of earlier turns. Some agents (Semantic Kernel) continue a stored response and send results again that it already has.
 */
function withoutRepeats(items: readonly Item[]): readonly Item[] {
  if (!items.some(isOfCall)) return items;
  const results = new Map<string, { readonly text: string; readonly turn: number }>();
  let turn = 0;
  let last: Item['content']['case'];
  const unique = items.filter(({ content }) => {
    if (last === 'toolResult' && content.case !== 'toolResult') turn += 1;
    last = content.case;
    if (content.case === 'toolCall') results.delete(content.value.callId);
    if (content.case !== 'toolResult') return true;
    const text = JSON.stringify(content.value.parts);
    const before = results.get(content.value.callId);
    if (before?.text === text && before.turn < turn) return false;
    results.set(content.value.callId, { text, turn });
    return true;
  });
  return unique.length === items.length ? items : unique;
}

/** Returns true if every result already directly follows the calls of its turn. Throws like `arrangeCalls`. */
export function checkCalls(items: readonly Item[], endpoint: Endpoint): boolean {
  if (!items.some(isOfCall)) return true;
  /** The names of calls that have no result yet, by their ids. */
  const open = new Map<string, string>();
  let isArranged = true;
  let turn: number | undefined;
  for (const [index, item] of items.entries()) {
    const { content } = item;
    if (content.case === 'toolResult') {
      if (!open.delete(content.value.callId)) throw orphan(content.value.callId, index, endpoint);
      continue;
    }
    // An item between a call and its result must belong to the same turn of the model.
    isArranged &&= open.size === 0 || belongsTo(item, turn);
    if (content.case !== 'toolCall') continue;
    if (open.has(content.value.callId)) throw unanswered(open, endpoint);
    open.set(content.value.callId, content.value.name);
    ({ turn } = item);
  }
  if (open.size > 0) throw unanswered(open, endpoint);
  return isArranged;
}

function isOfCall({ content }: Item): boolean {
  return content.case === 'toolCall' || content.case === 'toolResult';
}

/** Returns whether an item is output of the model in that turn. */
function belongsTo({ content, turn: own }: Item, turn: number | undefined): boolean {
  if (own !== turn) return false;
  if (content.case === 'message') return content.value.role === Role.ASSISTANT;
  return content.case === 'toolCall' || content.case === 'reasoning' || content.case === 'serverTool';
}

function moveResults(items: readonly Item[]): Item[] {
  const results = resultsByCall(items);
  const result: Item[] = [];
  /** The results of the current turn's calls. */
  let due: Item[] = [];
  let turn: number | undefined;
  for (const item of items) {
    const { content } = item;
    if (content.case === 'toolResult') continue;
    if (due.length > 0 && !belongsTo(item, turn)) {
      result.push(...due);
      due = [];
    }
    result.push(item);
    if (content.case !== 'toolCall') continue;
    ({ turn } = item);
    const answer = results.get(content.value.callId)?.shift();
    if (answer !== undefined) due.push(answer);
  }
  return [...result, ...due];
}

/** Returns the results of each call id, in order. Calls of different turns can have the same id. */
function resultsByCall(items: readonly Item[]): Map<string, Item[]> {
  const results = new Map<string, Item[]>();
  for (const item of items) {
    if (item.content.case !== 'toolResult') continue;
    const { callId } = item.content.value;
    const earlier = results.get(callId);
    if (earlier === undefined) results.set(callId, [item]);
    else earlier.push(item);
  }
  return results;
}

function unanswered(open: ReadonlyMap<string, string>, endpoint: Endpoint): GatewayError {
  const [first = ['', '']] = open;
  return misplaced(`The call "${first[0]}" of ${first[1]} has no result before the conversation continues`, endpoint);
}

function orphan(callId: string, index: number, endpoint: Endpoint): GatewayError {
  return misplaced(`The tool result for call "${callId}" (entry ${index}) belongs to no earlier call`, endpoint);
}

function misplaced(message: string, endpoint: Endpoint): GatewayError {
  return new GatewayError('unsupported_parameter', `${message}.`, {
    param: fieldName(endpoint, 'items'),
    tip: 'Send each tool call of the assistant together with exactly one result for it, in that order.',
  });
}
